// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The communicator of every backend: it checks the request, counts and records the collective in
// the flight recorder, brings tensors to where a mover can take them, and lets the mover move them.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/bounce.h"
#include "comm/call.h"
#include "comm/group.h"
#include "comm/mover.h"
#include "quadrille/comm/communicator.h"

namespace quadrille::internal {

class RecordedCommunicator final : public Communicator {
 public:
  /// `mover` is null for a group of one.
  RecordedCommunicator(Group group, std::unique_ptr<Mover> mover)
      : group_(std::move(group)), mover_(std::move(mover)) {}

  [[nodiscard]] Rank rank() const override { return Rank{group_.me}; }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] Result<Lease> lease(Pool& pool, Bytes bytes, MemoryTag tag,
                                    std::string_view what) override;
  [[nodiscard]] Result<void> all_reduce(CollectiveScope& scope, Stream& stream,
                                        const TensorView& tensor) override;
  [[nodiscard]] Result<void> reduce_scatter(CollectiveScope& scope, Stream& stream,
                                            const TensorView& tensor) override;
  [[nodiscard]] Result<void> all_gather(CollectiveScope& scope, Stream& stream,
                                        const TensorView& tensor) override;
  [[nodiscard]] Result<void> broadcast(CollectiveScope& scope, Stream& stream,
                                       const TensorView& tensor, Rank root) override;
  [[nodiscard]] Result<void> all_to_all(CollectiveScope& scope, Stream& stream,
                                        const TensorView& source, const TensorView& target,
                                        const RowSplits& splits) override;
  [[nodiscard]] Result<void> send(CollectiveScope& scope, Stream& stream, const TensorView& tensor,
                                  Rank target) override;
  [[nodiscard]] Result<void> recv(CollectiveScope& scope, Stream& stream, const TensorView& tensor,
                                  Rank source) override;
  [[nodiscard]] Result<void> barrier(CollectiveScope& scope) override;
  [[nodiscard]] Result<std::vector<std::string>> gather_bytes(CollectiveScope& scope,
                                                              std::string_view mine) override;

  /// Host memory held to carry tensors of devices that the host cannot touch.
  [[nodiscard]] Bytes bounce_bytes() const { return bounce_.bytes() + second_bounce_.bytes(); }

 private:
  /// Counts and records a call of the group, or of a pair, around move().
  template <class Move>
  auto recorded(Call& call, Move move) -> decltype(move());
  template <class Move>
  auto recorded(const Group& group, const Call& call, Move move) -> decltype(move());
  /// Records a collective on a tensor and lets `member` of the mover move it.
  using TensorMove = Result<void> (Mover::*)(const Call&, Stream&, const TensorView&);
  [[nodiscard]] Result<void> move_tensor(Call call, Stream& stream, const TensorView& tensor,
                                         TensorMove member);
  [[nodiscard]] Result<void> move_blocks(const Call& call, Stream& stream, const TensorView& source,
                                         const TensorView& target, const RowSplits& splits);
  /// This rank's next message, as `source` or `target`. Errors: kInvalid for no such peer.
  [[nodiscard]] Result<PairCall> next_message(const CollectiveScope& scope,
                                              const TensorView& tensor, Rank source, Rank target);
  /// Moves the tensor in place, or a host copy of it, back and forth.
  template <class Move>
  [[nodiscard]] Result<void> reach(Stream& stream, const TensorView& tensor, Move move);

  Group group_;
  std::unique_ptr<Mover> mover_;
  std::uint64_t sequence_ = 0;
  std::map<std::pair<int, int>, std::uint64_t> messages_;  ///< By source and target.
  Bounce bounce_;
  Bounce second_bounce_;
};

}  // namespace quadrille::internal
