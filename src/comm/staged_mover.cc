// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/staged_mover.h"

#include <algorithm>

#include "comm/direct_mover.h"
#include "quadrille/kernels/collective.h"

namespace quadrille::internal {

std::int64_t StagedMover::most(const TensorView& tensor) const {
  constexpr std::int64_t kLine = 64;
  const std::int64_t bytes = kStage.count() / group_.size() / kLine * kLine;
  return std::max<std::int64_t>(bytes / element_bytes(tensor.dtype()), 1);
}

std::int64_t StagedMover::rounds(const TensorView& tensor) const {
  const std::int64_t longest = shard_of(tensor, 0, group_.size()).elements();
  return (longest + most(tensor) - 1) / most(tensor);
}

TensorView StagedMover::piece(const TensorView& tensor, int shard, std::int64_t round) const {
  const TensorView whole = shard_of(tensor, shard, group_.size());
  const std::int64_t first = std::min(round * most(tensor), whole.elements());
  return whole.flat(first, std::min(most(tensor), whole.elements() - first));
}

TensorView StagedMover::staged(int owner, int shard, const TensorView& piece) const {
  const std::int64_t offset =
      owner * kStage.count() + shard * most(piece) * element_bytes(piece.dtype());
  return TensorView(piece.device(), stages_ + offset, piece.dtype(), piece.shape());
}

std::vector<TensorView> StagedMover::staged_everywhere(const TensorView& piece) const {
  std::vector<TensorView> views;
  for (int r = 0; r < group_.size(); ++r) views.push_back(staged(r, group_.me, piece));
  return views;
}

Result<void> StagedMover::meet(const Call& call, Stream& stream) {
  QD_RETURN_IF_ERROR(stream.synchronize());
  return meeting_.meet(call, {}, 0);
}

Result<void> StagedMover::leave(const Call& call, Stream& stream) {
  QD_RETURN_IF_ERROR(stream.synchronize());
  return meeting_.leave(call);
}

void StagedMover::put_all(Stream& stream, const TensorView& tensor, std::int64_t round) const {
  for (int r = 0; r < group_.size(); ++r) {
    const TensorView part = piece(tensor, r, round);
    kernels::copy_past_caches(stream, part, staged(group_.me, r, part));
  }
}

Result<void> StagedMover::all_reduce(const Call& call, Stream& stream, const TensorView& whole) {
  const TensorView tensor = whole.flat();  // in even shards, whatever its rows
  for (std::int64_t round = 0; round < rounds(tensor); ++round) {
    put_all(stream, tensor, round);
    QD_RETURN_IF_ERROR(meet(call, stream));
    const TensorView mine = piece(tensor, group_.me, round);
    if (!mine.empty()) kernels::sum_into_all(stream, staged_everywhere(mine));
    QD_RETURN_IF_ERROR(leave(call, stream));
    for (int r = 0; r < group_.size(); ++r) {
      const TensorView part = piece(tensor, r, round);
      kernels::copy_past_caches(stream, staged(group_.me, r, part), part);
    }
  }
  return stream.synchronize();
}

Result<void> StagedMover::reduce_scatter(const Call& call, Stream& stream,
                                         const TensorView& tensor) {
  for (std::int64_t round = 0; round < rounds(tensor); ++round) {
    put_all(stream, tensor, round);
    QD_RETURN_IF_ERROR(meet(call, stream));
    const TensorView mine = piece(tensor, group_.me, round);
    if (!mine.empty()) {
      kernels::sum_into_one(stream, staged_everywhere(mine), group_.me);
      kernels::copy_past_caches(stream, staged(group_.me, group_.me, mine), mine);
    }
    QD_RETURN_IF_ERROR(leave(call, stream));
  }
  return {};
}

Result<void> StagedMover::all_gather(const Call& call, Stream& stream, const TensorView& tensor) {
  for (std::int64_t round = 0; round < rounds(tensor); ++round) {
    const TensorView mine = piece(tensor, group_.me, round);
    kernels::copy_past_caches(stream, mine, staged(group_.me, 0, mine));
    QD_RETURN_IF_ERROR(meet(call, stream));
    for (int r = 0; r < group_.size(); ++r) {
      if (r == group_.me) continue;
      const TensorView theirs = piece(tensor, r, round);
      kernels::copy_past_caches(stream, staged(r, 0, theirs), theirs);
    }
    QD_RETURN_IF_ERROR(leave(call, stream));
  }
  return {};
}

Result<void> StagedMover::broadcast(const Call& call, Stream& stream, const TensorView& tensor) {
  const std::int64_t whole = kStage.count() / element_bytes(tensor.dtype());
  const TensorView flat = tensor.flat();
  for (std::int64_t first = 0; first < flat.elements(); first += whole) {
    const TensorView part = flat.flat(first, std::min(whole, flat.elements() - first));
    const TensorView stage = staged(call.root, 0, part);
    if (group_.me == call.root) kernels::copy_past_caches(stream, part, stage);
    QD_RETURN_IF_ERROR(meet(call, stream));
    if (group_.me != call.root) kernels::copy_past_caches(stream, stage, part);
    QD_RETURN_IF_ERROR(leave(call, stream));
  }
  return {};
}

}  // namespace quadrille::internal
