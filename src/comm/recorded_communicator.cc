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

template <class Move>
Result<void> RecordedCommunicator::reach(Stream& stream, const TensorView& tensor, Move move) {
  if (tensor.empty() || stream.device().host_addressable()) {
    QD_RETURN_IF_ERROR(stream.synchronize());
    return move(stream, tensor);
  }
  QD_ASSIGN_OR_RETURN(const TensorView copy, bounce_view(tensor));
  const std::span<std::byte> bytes(static_cast<std::byte*>(copy.address()),
                                   static_cast<std::size_t>(copy.bytes().count()));
  stream.download(tensor, bytes);
  QD_RETURN_IF_ERROR(stream.synchronize());
  QD_RETURN_IF_ERROR(move(*bounce_.stream, copy));
  stream.upload(bytes, tensor);
  return {};
}

Result<TensorView> RecordedCommunicator::bounce_view(const TensorView& tensor) {
  if (bounce_.device == nullptr) {
    bounce_.device = make_host_device();
    bounce_.stream = bounce_.device->make_stream();
    QD_ASSIGN_OR_RETURN(bounce_.pool,
                        Pool::create({bounce_.device.get(), Bytes(0), "copies for peers"}));
  }
  if (bounce_.lease.bytes() < tensor.bytes()) {
    bounce_.lease = Lease();
    QD_ASSIGN_OR_RETURN(bounce_.lease,
                        bounce_.pool->lease(tensor.bytes(), MemoryTag::kCommunication, "tensor"));
  }
  return bounce_.lease.view(tensor.dtype(), tensor.shape());
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
    return reach(stream, tensor, [&](Stream& on, const TensorView& reached) {
      return move_all_reduce(call, on, reached);
    });
  });
}

Result<void> RecordedCommunicator::reduce_scatter(CollectiveScope& scope, Stream& stream,
                                                  const TensorView& tensor) {
  const Call call = call_of("reduce_scatter", scope, tensor);
  QD_RETURN_IF_ERROR(check_sum(call, tensor));
  return recorded(call, [&]() -> Result<void> {
    if (size() == 1) return {};
    return reach(stream, tensor, [&](Stream& on, const TensorView& reached) {
      return move_reduce_scatter(call, on, reached);
    });
  });
}

Result<void> RecordedCommunicator::all_gather(CollectiveScope& scope, Stream& stream,
                                              const TensorView& tensor) {
  const Call call = call_of("all_gather", scope, tensor);
  return recorded(call, [&]() -> Result<void> {
    if (size() == 1) return {};
    return reach(stream, tensor, [&](Stream& on, const TensorView& reached) {
      return move_all_gather(call, on, reached);
    });
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
    return reach(stream, tensor, [&](Stream& on, const TensorView& reached) {
      return move_broadcast(call, on, reached);
    });
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
  if (tensor.shape().dimensions() == 0) return tensor;
  const std::int64_t rows = tensor.shape()[0];
  const std::int64_t row = rows == 0 ? 0 : tensor.elements() / rows;
  const Extent extent = shard_extent(rows, rank, ranks);
  return tensor.flat(extent.first * row, extent.length * row);
}

}  // namespace quadrille::internal
