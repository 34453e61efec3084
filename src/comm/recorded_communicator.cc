// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/recorded_communicator.h"

#include <fmt/format.h>

#include <utility>

namespace quadrille::internal {
namespace {

Call call_of(std::string_view operation, const CollectiveScope& scope, const TensorView& tensor) {
  return Call{operation, tensor.bytes().count(), scope.place(), -1, 0};
}

Result<void> check_sum(const Call& call, const TensorView& tensor) {
  if (tensor.dtype() == DType::kF32) return {};
  return fail(Code::kInvalid, fmt::format("{}: sums are of F32, not {}", describe(call),
                                          kDTypeText.text(tensor.dtype())));
}

}  // namespace

template <class Move>
auto RecordedCommunicator::recorded(Call& call, Move move) -> decltype(move()) {
  call.sequence = ++sequence_;
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

Result<void> RecordedCommunicator::move_tensor(Call call, Stream& stream, const TensorView& tensor,
                                               TensorMove member) {
  return recorded(call, [&]() -> Result<void> {
    if (size() == 1) return {};
    return reach(stream, tensor, [&](Stream& on, const TensorView& reached) {
      return (mover_.get()->*member)(call, on, reached);
    });
  });
}

Result<Lease> RecordedCommunicator::lease(Pool& pool, Bytes bytes, MemoryTag tag,
                                          std::string_view what) {
  Call call{"lease", bytes.count(), what, -1, 0};
  return recorded(call, [&]() -> Result<Lease> {
    if (size() == 1) return pool.lease(bytes, tag, what);
    return mover_->lease(call, pool, {bytes, tag, what});
  });
}

Result<void> RecordedCommunicator::all_reduce(CollectiveScope& scope, Stream& stream,
                                              const TensorView& tensor) {
  const Call call = call_of("all_reduce", scope, tensor);
  QD_RETURN_IF_ERROR(check_sum(call, tensor));
  return move_tensor(call, stream, tensor, &Mover::all_reduce);
}

Result<void> RecordedCommunicator::reduce_scatter(CollectiveScope& scope, Stream& stream,
                                                  const TensorView& tensor) {
  const Call call = call_of("reduce_scatter", scope, tensor);
  QD_RETURN_IF_ERROR(check_sum(call, tensor));
  return move_tensor(call, stream, tensor, &Mover::reduce_scatter);
}

Result<void> RecordedCommunicator::all_gather(CollectiveScope& scope, Stream& stream,
                                              const TensorView& tensor) {
  return move_tensor(call_of("all_gather", scope, tensor), stream, tensor, &Mover::all_gather);
}

Result<void> RecordedCommunicator::broadcast(CollectiveScope& scope, Stream& stream,
                                             const TensorView& tensor, Rank root) {
  Call call = call_of("broadcast", scope, tensor);
  if (root < Rank{0} || root >= Rank{size()}) {
    return fail(Code::kInvalid,
                fmt::format("{}: no rank {} in a group of {}", describe(call), root.value, size()));
  }
  call.root = root.value;
  return move_tensor(call, stream, tensor, &Mover::broadcast);
}

Result<void> RecordedCommunicator::barrier(CollectiveScope& scope) {
  Call call{"barrier", 0, scope.place(), -1, 0};
  return recorded(
      call, [&]() -> Result<void> { return size() == 1 ? Result<void>() : mover_->barrier(call); });
}

Result<std::vector<std::string>> RecordedCommunicator::gather_bytes(CollectiveScope& scope,
                                                                    std::string_view mine) {
  Call call{"gather_bytes", 0, scope.place(), -1, 0};
  return recorded(call, [&]() -> Result<std::vector<std::string>> {
    if (size() == 1) return std::vector<std::string>{std::string(mine)};
    return mover_->bytes(call, mine);
  });
}

}  // namespace quadrille::internal
