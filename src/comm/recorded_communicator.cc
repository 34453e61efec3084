// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/recorded_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/row_blocks.h"
#include "quadrille/kernels/collective.h"
#include "quadrille/observe/profile.h"

namespace quadrille::internal {
namespace {

Call call_of(std::string_view operation, const CollectiveScope& scope, const TensorView& tensor) {
  return Call{operation, tensor.bytes().count(), scope.place(), -1, 0};
}

Result<void> check_sum(const Call& call, const TensorView& tensor) {
  if (tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kBF16) return {};
  return fail(Code::kInvalid, fmt::format("{}: sums are of F32 or BF16, not {}", describe(call),
                                          kDTypeText.text(tensor.dtype())));
}

}  // namespace

template <class Move>
auto RecordedCommunicator::recorded(Call& call, Move move) -> decltype(move()) {
  call.sequence = ++sequence_;
  return recorded(group_, call, std::move(move));
}

template <class Move>
auto RecordedCommunicator::recorded(const Group& group, const Call& call, Move move)
    -> decltype(move()) {
  FlightTable* table = group.options->recorder;
  if (table != nullptr) {
    table->enter(group.world_rank(),
                 FlightEntry{group.id, call.sequence, std::string(call.operation), call.bytes,
                             std::string(call.place), false, monotonic_now().count()});
  }
  const StopSignal* stop = group.options->stop;
  if (stop != nullptr && stop->abort_requested()) {
    return fail(Code::kAborted, "stopped at once on request before " + describe(call));
  }
  auto result = move();
  // A failed collective stays open in the ring: it is what this rank was doing.
  if (table != nullptr && result) table->finish(group.world_rank(), group.id);
  return result;
}

template <class Move>
Result<void> RecordedCommunicator::reach(Stream& stream, const TensorView& tensor, Move move) {
  if (!Bounce::is_needed(stream, tensor)) {
    QD_RETURN_IF_ERROR(stream.synchronize());
    return move(stream, tensor);
  }
  QD_ASSIGN_OR_RETURN(const TensorView copy, bounce_.download(stream, tensor));
  QD_RETURN_IF_ERROR(move(bounce_.stream(), copy));
  Bounce::upload(stream, copy, tensor);
  return {};
}

Result<void> RecordedCommunicator::move_tensor(Call call, Stream& stream, const TensorView& tensor,
                                               TensorMove member) {
  const Seconds begin = stream.observer() == nullptr ? Seconds() : monotonic_now();
  auto moved = recorded(call, [&]() -> Result<void> {
    if (size() == 1) return {};
    return reach(stream, tensor, [&](Stream& on, const TensorView& reached) {
      return (mover_.get()->*member)(call, on, reached);
    });
  });
  if (stream.observer() != nullptr && size() > 1) {
    Operation operation(call.operation);
    operation.variant = kCollectiveVariant;
    stream.observer()->ran({operation, Bytes(call.bytes), begin, monotonic_now()});
  }
  return moved;
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

Result<void> RecordedCommunicator::all_to_all(CollectiveScope& scope, Stream& stream,
                                              const TensorView& source, const TensorView& target,
                                              const RowSplits& splits) {
  QD_RETURN_IF_ERROR(check_splits(source, target, splits, size()));
  // Ranks may have different numbers of rows, but rows alike.
  const std::int64_t row = source.shape().with_extent(0, 1).elements();
  Call call{"all_to_all", row * element_bytes(source.dtype()), scope.place(), -1, 0};
  return recorded(call, [&]() -> Result<void> {
    if (stream.device().host_addressable()) {
      QD_RETURN_IF_ERROR(stream.synchronize());
      return move_blocks(call, stream, source, target, splits);
    }
    QD_ASSIGN_OR_RETURN(const TensorView from, second_bounce_.download(stream, source));
    QD_ASSIGN_OR_RETURN(const TensorView to, bounce_.view(target));
    // Host memory is one for all host devices.
    const TensorView beside(to.device(), from.address(), from.dtype(), from.shape());
    QD_RETURN_IF_ERROR(move_blocks(call, bounce_.stream(), beside, to, splits));
    if (!target.empty()) Bounce::upload(stream, to, target);
    return {};
  });
}

Result<void> RecordedCommunicator::move_blocks(const Call& call, Stream& stream,
                                               const TensorView& source, const TensorView& target,
                                               const RowSplits& splits) {
  if (size() > 1) return mover_->all_to_all(call, stream, source, target, splits);
  kernels::copy_past_caches(stream, source, target);
  return stream.synchronize();
}

Result<PairCall> RecordedCommunicator::next_message(const CollectiveScope& scope,
                                                    const TensorView& tensor, Rank source,
                                                    Rank target) {
  const Rank peer = source == rank() ? target : source;
  if (peer == rank() || peer < Rank{0} || peer >= Rank{size()}) {
    return fail(Code::kInvalid, fmt::format("a message at {} from rank {} to {} in a group of {}",
                                            scope.place(), source.value, target.value, size()));
  }
  const auto member = [&](Rank r) { return group_.members[static_cast<std::size_t>(r.value)]; };
  PairCall message;
  message.source = source.value;
  message.target = target.value;
  message.pair = group_;
  message.pair.members = {std::min(member(source), member(target)),
                          std::max(member(source), member(target))};
  message.pair.me = group_.world_rank() == message.pair.members.front() ? 0 : 1;
  // Another name for each direction of each pair of each group.
  const auto direction =
      static_cast<std::uint64_t>(source.value) * 65536U + static_cast<std::uint64_t>(target.value);
  message.pair.id = group_.id ^ ((direction + 1) * 0x9E3779B97F4A7C15ULL);
  message.operation = fmt::format("message {} to {}", member(source).value, member(target).value);
  message.call = Call{
      {}, tensor.bytes().count(), scope.place(), -1, ++messages_[{source.value, target.value}]};
  return message;
}

Result<void> RecordedCommunicator::send(CollectiveScope& scope, Stream& stream,
                                        const TensorView& tensor, Rank target) {
  QD_ASSIGN_OR_RETURN(PairCall message, next_message(scope, tensor, rank(), target));
  message.call.operation = message.operation;
  return recorded(message.pair, message.call, [&]() -> Result<void> {
    if (!Bounce::is_needed(stream, tensor)) {
      QD_RETURN_IF_ERROR(stream.synchronize());
      return mover_->send(message, stream, tensor);
    }
    QD_ASSIGN_OR_RETURN(const TensorView copy, bounce_.download(stream, tensor));
    return mover_->send(message, bounce_.stream(), copy);
  });
}

Result<void> RecordedCommunicator::recv(CollectiveScope& scope, Stream& stream,
                                        const TensorView& tensor, Rank source) {
  QD_ASSIGN_OR_RETURN(PairCall message, next_message(scope, tensor, source, rank()));
  message.call.operation = message.operation;
  return recorded(message.pair, message.call, [&]() -> Result<void> {
    QD_RETURN_IF_ERROR(stream.synchronize());
    if (!Bounce::is_needed(stream, tensor)) return mover_->recv(message, stream, tensor);
    QD_ASSIGN_OR_RETURN(const TensorView copy, bounce_.view(tensor));
    QD_RETURN_IF_ERROR(mover_->recv(message, bounce_.stream(), copy));
    Bounce::upload(stream, copy, tensor);
    return {};
  });
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
