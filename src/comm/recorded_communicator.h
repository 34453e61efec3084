// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every backend's communicator does alike: check the request, count and record the collective
// in the flight recorder, and refuse to go on after a failure. Backends move the data.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/call.h"
#include "comm/group.h"
#include "comm/watch.h"
#include "quadrille/comm/communicator.h"

namespace quadrille::internal {

class RecordedCommunicator : public Communicator {
 public:
  explicit RecordedCommunicator(Group group) : group_(std::move(group)) {}

  [[nodiscard]] Rank rank() const final { return Rank{group_.me}; }
  [[nodiscard]] int size() const final { return group_.size(); }
  [[nodiscard]] Result<Lease> lease(Pool& pool, Bytes bytes, MemoryTag tag,
                                    std::string_view what) override;
  [[nodiscard]] Result<void> all_reduce(CollectiveScope& scope, Stream& stream,
                                        const TensorView& tensor) final;
  [[nodiscard]] Result<void> reduce_scatter(CollectiveScope& scope, Stream& stream,
                                            const TensorView& tensor) final;
  [[nodiscard]] Result<void> all_gather(CollectiveScope& scope, Stream& stream,
                                        const TensorView& tensor) final;
  [[nodiscard]] Result<void> broadcast(CollectiveScope& scope, Stream& stream,
                                       const TensorView& tensor, Rank root) final;
  [[nodiscard]] Result<void> barrier(CollectiveScope& scope) final;
  [[nodiscard]] Result<std::vector<std::string>> gather_bytes(CollectiveScope& scope,
                                                              std::string_view mine) final;

  /// Host memory held to carry tensors of devices that the host cannot touch.
  [[nodiscard]] Bytes bounce_bytes() const { return bounce_.lease.bytes(); }

 protected:
  // The data's way, called on groups of at least two with a call that was counted and recorded.
  // Tensors are on the host and what the stream was doing to them is done.
  virtual Result<void> move_barrier(const Call& call) = 0;
  virtual Result<std::vector<std::string>> move_bytes(const Call& call, std::string_view mine) = 0;
  virtual Result<void> move_all_reduce(const Call& call, Stream& stream,
                                       const TensorView& tensor) = 0;
  virtual Result<void> move_reduce_scatter(const Call& call, Stream& stream,
                                           const TensorView& tensor) = 0;
  virtual Result<void> move_all_gather(const Call& call, Stream& stream,
                                       const TensorView& tensor) = 0;
  virtual Result<void> move_broadcast(const Call& call, Stream& stream,
                                      const TensorView& tensor) = 0;

  [[nodiscard]] const Group& group() const { return group_; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }

 private:
  template <class Move>
  auto recorded(const Call& call, Move move) -> decltype(move());

  /// Moves the tensor in place, or a host copy of it, back and forth.
  template <class Move>
  [[nodiscard]] Result<void> reach(Stream& stream, const TensorView& tensor, Move move);
  [[nodiscard]] Result<TensorView> bounce_view(const TensorView& tensor);

  /// Made when first needed; grows to the largest tensor.
  struct Bounce {
    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Pool> pool;
    Lease lease;
  };

  Group group_;
  std::uint64_t sequence_ = 0;
  Bounce bounce_;
};

/// Rank `rank`'s rows of the outermost dimension, flattened.
[[nodiscard]] TensorView shard_of(const TensorView& tensor, int rank, int ranks);

}  // namespace quadrille::internal
