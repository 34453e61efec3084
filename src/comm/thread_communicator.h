// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The reference backend: ranks are threads of one process and read each other's tensors directly.
// An all-reduce sums this rank's shard from all buffers in rank order and stores it into all of
// them, a piece at a time so that the sum is stored while it is in cache.

#include "comm/recorded_communicator.h"
#include "comm/thread_hub.h"

namespace quadrille::internal {

class ThreadCommunicator final : public RecordedCommunicator {
 public:
  ThreadCommunicator(Group members, ThreadMeeting& meeting)
      : RecordedCommunicator(std::move(members)), meeting_(meeting) {}

 protected:
  Result<void> move_barrier(const Call& call) override;
  Result<std::vector<std::string>> move_bytes(const Call& call, std::string_view mine) override;
  Result<void> move_all_reduce(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> move_reduce_scatter(const Call& call, Stream& stream,
                                   const TensorView& tensor) override;
  Result<void> move_all_gather(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> move_broadcast(const Call& call, Stream& stream, const TensorView& tensor) override;

 private:
  /// Posts and waits until every rank has posted the same call. Afterwards each rank must leave().
  [[nodiscard]] Result<void> meet(const Call& call, void* address);
  void leave();
  /// A peer's tensor as one of this rank's device: host memory is one for all host devices.
  [[nodiscard]] TensorView peer_view(int peer, const TensorView& mine);

  ThreadMeeting& meeting_;
};

}  // namespace quadrille::internal
