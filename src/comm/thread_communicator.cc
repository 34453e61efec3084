// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/thread_communicator.h"

#include <algorithm>

#include "quadrille/base/check.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/kernels/reduction.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kPieceElements = 16 << 10;  // 64 KiB of sums stay in the second-level cache
constexpr Seconds kLongestLeave(60.0);

/// Copies of any dtype: as bytes through a launch, so that a guarding device opens both views.
void copy_bytes(Stream& stream, const TensorView& source, const TensorView& target) {
  if (source.empty()) return;
  const Operand operands[] = {{source, Access::kRead}, {target, Access::kWrite}};
  stream.launch("copy", operands, [source, target] {
    const auto* from = static_cast<const std::byte*>(source.address());
    std::copy_n(from, source.bytes().count(), static_cast<std::byte*>(target.address()));
  });
}

}  // namespace

Result<void> ThreadCommunicator::meet(const Call& call, void* address) {
  Post& post = meeting_.post(group().me, sequence());
  post.call.assign(call);
  post.address = address;
  Watch watch(group(), sequence(), call);
  QD_RETURN_IF_ERROR(meeting_.arrive(group().me, watch));
  return meeting_.compare(sequence());
}

void ThreadCommunicator::leave() {
  meeting_.leave(group().me, group().always_yield,
                 std::max(kLongestLeave, group().options->timeout));
}

TensorView ThreadCommunicator::peer_view(int peer, const TensorView& mine) {
  return TensorView(mine.device(), meeting_.post(peer, sequence()).address, mine.dtype(),
                    mine.shape());
}

Result<void> ThreadCommunicator::move_barrier(const Call& call) { return meet(call, nullptr); }

Result<std::vector<std::string>> ThreadCommunicator::move_bytes(const Call& call,
                                                                std::string_view mine) {
  meeting_.post(group().me, sequence()).bytes.assign(mine);
  QD_RETURN_IF_ERROR(meet(call, nullptr));
  std::vector<std::string> all;
  for (int r = 0; r < size(); ++r) all.push_back(meeting_.post(r, sequence()).bytes);
  return all;
}

Result<void> ThreadCommunicator::move_all_reduce(const Call& call, Stream& stream,
                                                 const TensorView& tensor) {
  QD_RETURN_IF_ERROR(meet(call, tensor.address()));
  std::vector<TensorView> shards;
  for (int r = 0; r < size(); ++r) {
    shards.push_back(shard_of(peer_view(r, tensor.flat()), group().me, size()));
  }
  const std::int64_t elements = shards.front().elements();
  std::vector<TensorView> sources(shards.size());
  for (std::int64_t first = 0; first < elements; first += kPieceElements) {
    const std::int64_t length = std::min(kPieceElements, elements - first);
    for (std::size_t r = 0; r < shards.size(); ++r) sources[r] = shards[r].flat(first, length);
    const TensorView& target = sources[static_cast<std::size_t>(group().me)];
    kernels::sum_in_order(stream, sources, target);
    for (const TensorView& copy : sources) {
      if (copy.address() != target.address()) kernels::copy(stream, target, copy);
    }
  }
  auto done = stream.synchronize();
  leave();
  return done;
}

Result<void> ThreadCommunicator::move_reduce_scatter(const Call& call, Stream& stream,
                                                     const TensorView& tensor) {
  QD_RETURN_IF_ERROR(meet(call, tensor.address()));
  std::vector<TensorView> sources;
  for (int r = 0; r < size(); ++r) {
    sources.push_back(shard_of(peer_view(r, tensor), group().me, size()));
  }
  if (!sources.front().empty()) {
    kernels::sum_in_order(stream, sources, sources[static_cast<std::size_t>(group().me)]);
  }
  auto done = stream.synchronize();
  leave();
  return done;
}

Result<void> ThreadCommunicator::move_all_gather(const Call& call, Stream& stream,
                                                 const TensorView& tensor) {
  QD_RETURN_IF_ERROR(meet(call, tensor.address()));
  for (int r = 0; r < size(); ++r) {
    if (r == group().me) continue;
    copy_bytes(stream, shard_of(peer_view(r, tensor), r, size()), shard_of(tensor, r, size()));
  }
  auto done = stream.synchronize();
  leave();
  return done;
}

Result<void> ThreadCommunicator::move_broadcast(const Call& call, Stream& stream,
                                                const TensorView& tensor) {
  QD_RETURN_IF_ERROR(meet(call, tensor.address()));
  if (call.root != group().me) copy_bytes(stream, peer_view(call.root, tensor), tensor.flat());
  auto done = stream.synchronize();
  leave();
  return done;
}

}  // namespace quadrille::internal
