// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/token_drawer.h"

#include <algorithm>
#include <numeric>

#include "quadrille/kernels/sampling.h"

namespace quadrille::internal {

using kernels::kSamplingBlock;

Result<TokenDrawer> TokenDrawer::create(Stream& stream, Pool& pool, Extents extents) {
  TokenDrawer drawer;
  drawer.stream_ = &stream;
  drawer.extents_ = extents;
  drawer.blocks_ = (extents.known + kSamplingBlock - 1) / kSamplingBlock;
  const auto padded = [](std::int64_t bytes) { return Bytes((bytes + 63) / 64 * 64); };
  const Bytes weights = padded(extents.rows * extents.known * 4);
  const Bytes sums = padded(extents.rows * drawer.blocks_ * 8);
  QD_ASSIGN_OR_RETURN(drawer.lease_, pool.lease(weights + sums + padded(extents.rows * 4),
                                                MemoryTag::kWorkspace, "sampling"));
  drawer.weights_ = drawer.lease_.view(DType::kF32, {extents.rows, extents.known});
  drawer.sums_ = drawer.lease_.view_at(weights, DType::kF64, {extents.rows, drawer.blocks_});
  drawer.best_ = drawer.lease_.view_at(weights + sums, DType::kI32, {extents.rows});
  drawer.row_.resize(static_cast<std::size_t>(extents.known));
  return drawer;
}

Result<std::vector<std::int32_t>> TokenDrawer::draw(const TensorView& logits,
                                                    const SamplingOptions& options,
                                                    std::span<const double> draws) {
  const std::int64_t rows = logits.shape()[0];
  QD_CHECK(rows <= extents_.rows);
  QD_CHECK(static_cast<std::int64_t>(draws.size()) == rows);
  const bool greedy = options.temperature <= 0;
  kernels::sampling_weights(*stream_,
                            {.logits = logits,
                             .known = extents_.known,
                             .inverse_temperature = greedy ? 1.0 : 1 / options.temperature,
                             .weights = weights_.rows(0, rows),
                             .sums = sums_.rows(0, rows),
                             .best = best_.rows(0, rows)});
  QD_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids,
                      read_all<std::int32_t>(*stream_, best_.rows(0, rows)));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int32_t& id = ids[static_cast<std::size_t>(row)];
    if (id < 0) {
      return fail(Code::kInvalid, "the model's logits are not finite: its weights are damaged");
    }
    if (greedy) continue;
    const double draw = draws[static_cast<std::size_t>(row)];
    const bool cut = options.top_k > 0 || options.top_p < 1;
    QD_ASSIGN_OR_RETURN(const std::int32_t drawn,
                        cut ? draw_cut(row, options, draw) : draw_whole(row, draw));
    if (drawn >= 0) id = drawn;  // else a draw so near 1 that rounding passed the end
  }
  return ids;
}

Result<std::int32_t> TokenDrawer::draw_whole(std::int64_t row, double draw) {
  QD_ASSIGN_OR_RETURN(const std::vector<double> sums,
                      read_all<double>(*stream_, sums_.rows(row, 1)));
  double target = draw * std::accumulate(sums.begin(), sums.end(), 0.0);
  std::size_t block = 0;
  while (block + 1 < sums.size() && target >= sums[block]) target -= sums[block++];
  const auto first = static_cast<std::int64_t>(block) * kSamplingBlock;
  const std::int64_t count = std::min(kSamplingBlock, extents_.known - first);
  QD_ASSIGN_OR_RETURN(
      const std::vector<float> weights,
      read_all<float>(*stream_, weights_.flat(row * extents_.known + first, count)));
  const std::int32_t place = walk(weights, target);
  return place < 0 ? place : place + static_cast<std::int32_t>(first);
}

Result<std::int32_t> TokenDrawer::draw_cut(std::int64_t row, const SamplingOptions& options,
                                           double draw) {
  stream_->download(weights_.rows(row, 1), std::as_writable_bytes(std::span<float>(row_)));
  QD_RETURN_IF_ERROR(stream_->synchronize());
  return cut_.draw(row_, options, draw);
}

}  // namespace quadrille::internal
