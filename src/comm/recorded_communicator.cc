// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/recorded_communicator.h"

#include <fmt/format.h>

#include <utility>

#include "quadrille/mesh/placement.h"

namespace quadrille::internal {
namespace {

Call call_of(std::string_view operation, const CollectiveScope& scope, const TensorView& tensor) {
  return Call{operation, tensor.bytes().count(), scope.place(), -1};
}

Result<void> check_sum(const Call& call, const TensorView& tensor) {
  if (tensor.dtype() == DType::kF32) return {};
  return fail(Code::kInvalid, fmt::format("{}: sums are of F32, not {}", describe(call),
                                          kDTypeText.text(tensor.dtype())));
}

}  // namespace

template <class Move>
auto RecordedCommunicator::recorded(const Call& call, Move move) -> decltype(move()) {
  ++sequence_;
  FlightTable* table = group_.options->recorder;
  if (table != nullptr) {
    table->enter(group_.world_rank(),
                 FlightEntry{group_.id, sequence_, std::string(call.operation), call.bytes,
                             std::string(call.place), false, monotonic_now().count()});
  }
  const StopSignal* stop = group_.options->stop;
  if (stop != nullptr && stop->abort_requested()) {
    return fail(Code::kAborted, "stopped at once on request before " + describe(call));
  }
  auto result = move();
  // A failed collective stays open in the ring: it is what this rank was doing.
  if (table != nullptr && result) table->finish(group_.world_rank(), group_.id);
  return result;
}

Result<Lease> RecordedCommunicator::lease(Pool& pool, Bytes bytes, MemoryTag tag,
                                          std::string_view what) {
  const Call call{"lease", bytes.count(), what, -1};
  QD_RETURN_IF_ERROR(recorded(
      call, [&]() -> Result<void> { return size() == 1 ? Result<void>() : move_barrier(call); }));
  return pool.lease(bytes, tag, what);
}

Result<void> RecordedCommunicator::all_reduce(CollectiveScope& scope, Stream& stream,
                                              const TensorView& tensor) {
  const Call call = call_of("all_reduce", scope, tensor);
  QD_RETURN_IF_ERROR(check_sum(call, tensor));
  return recorded(call, [&]() -> Result<void> {
    if (size() == 1) return {};
    QD_RETURN_IF_ERROR(stream.synchronize());
    return move_all_reduce(call, stream, tensor);
  });
}

Result<void> RecordedCommunicator::reduce_scatter(CollectiveScope& scope, Stream& stream,
                                                  const TensorView& tensor) {
  const Call call = call_of("reduce_scatter", scope, tensor);
  QD_RETURN_IF_ERROR(check_sum(call, tensor));
  return recorded(call, [&]() -> Result<void> {
    if (size() == 1) return {};
    QD_RETURN_IF_ERROR(stream.synchronize());
    return move_reduce_scatter(call, stream, tensor);
  });
}

Result<void> RecordedCommunicator::all_gather(CollectiveScope& scope, Stream& stream,
                                              const TensorView& tensor) {
  const Call call = call_of("all_gather", scope, tensor);
  return recorded(call, [&]() -> Result<void> {
    if (size() == 1) return {};
    QD_RETURN_IF_ERROR(stream.synchronize());
    return move_all_gather(call, stream, tensor);
  });
}

Result<void> RecordedCommunicator::broadcast(CollectiveScope& scope, Stream& stream,
                                             const TensorView& tensor, Rank root) {
  Call call = call_of("broadcast", scope, tensor);
  if (root < Rank{0} || root >= Rank{size()}) {
    return fail(Code::kInvalid,
                fmt::format("{}: no rank {} in a group of {}", describe(call), root.value, size()));
  }
  call.root = root.value;
  return recorded(call, [&]() -> Result<void> {
    if (size() == 1) return {};
    QD_RETURN_IF_ERROR(stream.synchronize());
    return move_broadcast(call, stream, tensor);
  });
}

Result<void> RecordedCommunicator::barrier(CollectiveScope& scope) {
  const Call call{"barrier", 0, scope.place(), -1};
  return recorded(
      call, [&]() -> Result<void> { return size() == 1 ? Result<void>() : move_barrier(call); });
}

Result<std::vector<std::string>> RecordedCommunicator::gather_bytes(CollectiveScope& scope,
                                                                    std::string_view mine) {
  const Call call{"gather_bytes", 0, scope.place(), -1};
  return recorded(call, [&]() -> Result<std::vector<std::string>> {
    if (size() == 1) return std::vector<std::string>{std::string(mine)};
    return move_bytes(call, mine);
  });
}

TensorView shard_of(const TensorView& tensor, int rank, int ranks) {
  const Extent extent = shard_extent(tensor.elements(), rank, ranks);
  return tensor.flat(extent.first, extent.length);
}

}  // namespace quadrille::internal
