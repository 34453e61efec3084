// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_rms_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_rms_norm.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

void rms_norm_row(const kernels::RmsNormForward& arguments, std::int64_t row) {
  const std::int64_t width = arguments.x.shape()[1];
  const float* x = arguments.x.host<float>() + row * width;
  const float* weight = arguments.weight.host<float>();
  float* y = arguments.y.host<float>() + row * width;
  const float mean_square = dot(x, x, width) / static_cast<float>(width);
  const float rstd = 1.0F / std::sqrt(mean_square + arguments.epsilon);
  arguments.rstd.host<float>()[row] = rstd;
  for_lanes(width, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto normal = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, rstd));
    hn::StoreU(hn::Mul(normal, hn::LoadU(d, weight + i)), d, y + i);
  });
}

/// With n = x rstd and g = dy * weight: dx = rstd (g - n mean(g n)); weight_sums += dy n.
void rms_norm_backward_row(const kernels::RmsNormBackward& arguments, std::int64_t row,
                           float* weight_sums) {
  const std::int64_t width = arguments.x.shape()[1];
  const float* x = arguments.x.host<float>() + row * width;
  const float* dy = arguments.dy.host<float>() + row * width;
  const float* weight = arguments.weight.host<float>();
  float* dx = arguments.dx.host<float>() + row * width;
  const float rstd = arguments.rstd.host<float>()[row];
  const float mean_gn =
      sum_lanes(width,
                [=](auto d, std::int64_t i) HWY_ATTR {
                  const auto g = hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i));
                  return hn::Mul(g, hn::Mul(hn::LoadU(d, x + i), hn::Set(d, rstd)));
                }) /
      static_cast<float>(width);
  const bool accumulate = arguments.accumulate_dx;
  for_lanes(width, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto up = hn::LoadU(d, dy + i);
    const auto normal = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, rstd));
    const auto g = hn::Mul(up, hn::LoadU(d, weight + i));
    const auto inner = hn::NegMulAdd(normal, hn::Set(d, mean_gn), g);
    const auto before = accumulate ? hn::LoadU(d, dx + i) : hn::Zero(d);
    hn::StoreU(hn::MulAdd(normal, up, hn::LoadU(d, weight_sums + i)), d, weight_sums + i);
    hn::StoreU(hn::MulAdd(inner, hn::Set(d, rstd), before), d, dx + i);
  });
}

void rms_norm_rows(const kernels::RmsNormForward& arguments, std::int64_t first,
                   std::int64_t count) {
  for (std::int64_t row = first; row < first + count; ++row) rms_norm_row(arguments, row);
}

/// sums [H] holds the block's weight sums.
void rms_norm_backward_rows(const kernels::RmsNormBackward& arguments, std::int64_t first,
                            std::int64_t count, float* sums) {
  std::fill_n(sums, arguments.x.shape()[1], 0.0F);
  for (std::int64_t row = first; row < first + count; ++row) {
    rms_norm_backward_row(arguments, row, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

// Blocks of rows, by extents alone: at least 16 rows, at most 32 blocks, so that the blocks' sums
// stay small.
constexpr std::int64_t kLeastRows = 16;
constexpr std::int64_t kMostBlocks = 32;

}  // namespace

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(rms_norm_backward_rows);

void host_rms_norm_forward(const kernels::RmsNormForward& arguments) {
  parallel_blocks(arguments.x.shape()[0], kLeastRows, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(rms_norm_rows)(arguments, first, count);
  });
}

void host_rms_norm_backward(const kernels::RmsNormBackward& arguments) {
  const std::int64_t rows = arguments.x.shape()[0];
  const std::int64_t width = arguments.x.shape()[1];
  const std::int64_t block = std::max(kLeastRows, (rows + kMostBlocks - 1) / kMostBlocks);
  const std::int64_t blocks = (rows + block - 1) / block;
  thread_local std::vector<float> scratch;  // [blocks, H]
  scratch.resize(static_cast<std::size_t>(blocks * width));
  float* sums = scratch.data();
  parallel_blocks(rows, block, [=, &arguments](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows)
    (arguments, first, count, sums + first / block * width);
  });
  float* weight = arguments.weight_gradient.host<float>();
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (std::int64_t i = 0; i < width; ++i) weight[i] += sums[b * width + i];
  }
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
