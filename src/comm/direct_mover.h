// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collectives in place, by ranks that reach each other's memory: threads of a process, or processes
// of a host that map each other's segments. An all-reduce sums this rank's slice from all buffers
// in rank order and stores it into all of them, so each byte is read and written once per buffer:
// 2N reads and 2N writes of memory for two ranks, which bounds it at a quarter of what memory can
// stream. Memory that a peer cannot reach is left to another mover.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/group.h"
#include "comm/mailbox.h"
#include "comm/meeting.h"
#include "comm/mover.h"
#include "quadrille/mesh/placement.h"

namespace quadrille::internal {

/// How ranks find each other's memory.
class Reach {
 public:
  virtual ~Reach() = default;
  /// Where memory of this rank lies, or nowhere unless every member of the group reaches it.
  [[nodiscard]] virtual Location locate(const void* memory, Bytes bytes) const = 0;
  /// What a member located, in this process.
  [[nodiscard]] virtual void* address(int member, const Location& location) const = 0;

  /// Every rank's bytes, by rank.
  using Exchange = std::function<Result<std::vector<std::string>>(std::string_view)>;
  /// Memory of `pool` that every member reaches. Collective.
  [[nodiscard]] virtual Result<Lease> lease(Pool& pool, const LeaseRequest& request,
                                            const Exchange& exchange) = 0;
};

class DirectMover final : public Mover {
 public:
  /// A place for `ranks` to meet and to pass messages, before any of them uses it (aligned to 64
  /// bytes).
  [[nodiscard]] static Bytes memory_bytes(int ranks);
  static void prepare(void* memory, int ranks);

  /// `memory` was prepared and holds `meeting`. `otherwise` moves what is out of reach; null where
  /// nothing is.
  DirectMover(Group group, void* memory, Meeting& meeting, std::unique_ptr<Reach> reach,
              std::unique_ptr<Mover> otherwise);

  Result<void> barrier(const Call& call) override;
  Result<std::vector<std::string>> bytes(const Call& call, std::string_view mine) override;
  Result<void> all_reduce(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> reduce_scatter(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> all_gather(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> broadcast(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> all_to_all(const Call& call, Stream& stream, const TensorView& source,
                          const TensorView& target, const RowSplits& splits) override;
  Result<void> send(const PairCall& call, Stream& stream, const TensorView& tensor) override;
  Result<void> recv(const PairCall& call, Stream& stream, const TensorView& tensor) override;
  Result<Lease> lease(const Call& call, Pool& pool, const LeaseRequest& request) override;

 private:
  /// Meets the others over a tensor. False where some rank's is out of somebody's reach.
  [[nodiscard]] Result<bool> meet(const Call& call, const TensorView& tensor);
  /// Ends what began with meet(), once the stream's work is done.
  [[nodiscard]] Result<void> leave(const Call& call, Stream& stream);
  /// A peer's tensor as one of this rank's device: host memory is one for all host devices.
  [[nodiscard]] TensorView peer_view(int peer, const TensorView& mine) const;
  [[nodiscard]] std::vector<TensorView> peer_views(const TensorView& mine, Extent part) const;

  [[nodiscard]] Box& box(const PairCall& call) const {
    return boxes_[call.source * group_.size() + call.target];
  }

  Group group_;
  Box* boxes_;  ///< By source, then target.
  Meeting& meeting_;
  std::unique_ptr<Reach> reach_;
  std::unique_ptr<Mover> otherwise_;
};

/// Rank `rank`'s rows of the outermost dimension, as elements of the flattened tensor.
[[nodiscard]] Extent shard_elements(const TensorView& tensor, int rank, int ranks);
[[nodiscard]] TensorView shard_of(const TensorView& tensor, int rank, int ranks);

}  // namespace quadrille::internal
