// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_layer_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/host_reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_layer_norm.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// One row of [rows, H]. The variance is summed about the mean, so that a large mean costs no
/// digits.
void layer_norm_row(const kernels::LayerNormForward& arguments, std::int64_t row) {
  const std::int64_t width = arguments.x.shape()[1];
  const float* x = arguments.x.host<float>() + row * width;
  const float* weight = arguments.weight.host<float>();
  const float* bias = arguments.bias.empty() ? nullptr : arguments.bias.host<float>();
  float* y = arguments.y.host<float>() + row * width;
  const auto divisor = static_cast<float>(width);
  const float mean =
      sum_lanes(width, [=](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) /
      divisor;
  const float variance = sum_lanes(width,
                                   [=](auto d, std::int64_t i) HWY_ATTR {
                                     const auto centred =
                                         hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
                                     return hn::Mul(centred, centred);
                                   }) /
                         divisor;
  const float rstd = 1.0F / std::sqrt(variance + arguments.epsilon);
  arguments.mean.host<float>()[row] = mean;
  arguments.rstd.host<float>()[row] = rstd;
  for_lanes(width, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto normal = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, rstd));
    const auto offset = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + i);
    hn::StoreU(hn::MulAdd(normal, hn::LoadU(d, weight + i), offset), d, y + i);
  });
}

/// With n = (x - mean) rstd and g = dy * weight:
///   dx = rstd (g - mean(g) - n mean(g n)); weight_sums += dy n; bias_sums += dy.
void layer_norm_backward_row(const kernels::LayerNormBackward& arguments, std::int64_t row,
                             float* weight_sums, float* bias_sums) {
  const std::int64_t width = arguments.x.shape()[1];
  const float* x = arguments.x.host<float>() + row * width;
  const float* dy = arguments.dy.host<float>() + row * width;
  const float* weight = arguments.weight.host<float>();
  float* dx = arguments.dx.host<float>() + row * width;
  const float mean = arguments.mean.host<float>()[row];
  const float rstd = arguments.rstd.host<float>()[row];
  const auto divisor = static_cast<float>(width);
  const float mean_g = sum_lanes(width,
                                 [=](auto d, std::int64_t i) HWY_ATTR {
                                   return hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i));
                                 }) /
                       divisor;
  const float mean_gn =
      sum_lanes(width,
                [=](auto d, std::int64_t i) HWY_ATTR {
                  const auto normal =
                      hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, rstd));
                  return hn::Mul(hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i)), normal);
                }) /
      divisor;
  const bool accumulate = arguments.accumulate_dx;
  for_lanes(width, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto up = hn::LoadU(d, dy + i);
    const auto normal = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, rstd));
    const auto g = hn::Mul(up, hn::LoadU(d, weight + i));
    const auto inner = hn::NegMulAdd(normal, hn::Set(d, mean_gn), hn::Sub(g, hn::Set(d, mean_g)));
    const auto before = accumulate ? hn::LoadU(d, dx + i) : hn::Zero(d);
    hn::StoreU(hn::MulAdd(normal, up, hn::LoadU(d, weight_sums + i)), d, weight_sums + i);
    hn::StoreU(hn::Add(hn::LoadU(d, bias_sums + i), up), d, bias_sums + i);
    hn::StoreU(hn::MulAdd(inner, hn::Set(d, rstd), before), d, dx + i);
  });
}

void layer_norm_rows(const kernels::LayerNormForward& arguments, std::int64_t first,
                     std::int64_t count) {
  for (std::int64_t row = first; row < first + count; ++row) layer_norm_row(arguments, row);
}

/// sums [2, H] holds the block's weight and bias sums.
void layer_norm_backward_rows(const kernels::LayerNormBackward& arguments, std::int64_t first,
                              std::int64_t count, float* sums) {
  const std::int64_t width = arguments.x.shape()[1];
  std::fill_n(sums, 2 * width, 0.0F);
  for (std::int64_t row = first; row < first + count; ++row) {
    layer_norm_backward_row(arguments, row, sums, sums + width);
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

HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(layer_norm_backward_rows);

void host_layer_norm_forward(const kernels::LayerNormForward& arguments) {
  parallel_blocks(arguments.x.shape()[0], kLeastRows, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(layer_norm_rows)(arguments, first, count);
  });
}

void host_layer_norm_backward(const kernels::LayerNormBackward& arguments) {
  const std::int64_t rows = arguments.x.shape()[0];
  const std::int64_t width = arguments.x.shape()[1];
  const std::int64_t block = std::max(kLeastRows, (rows + kMostBlocks - 1) / kMostBlocks);
  const std::int64_t blocks = (rows + block - 1) / block;
  thread_local std::vector<float> scratch;  // [blocks, 2, H]
  scratch.resize(static_cast<std::size_t>(blocks * 2 * width));
  float* sums = scratch.data();
  parallel_blocks(rows, block, [=, &arguments](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)
    (arguments, first, count, sums + first / block * 2 * width);
  });
  float* weight = arguments.weight_gradient.host<float>();
  float* bias = arguments.bias_gradient.empty() ? nullptr : arguments.bias_gradient.host<float>();
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float* source = sums + b * 2 * width;
    for (std::int64_t i = 0; i < width; ++i) weight[i] += source[i];
    if (bias == nullptr) continue;
    for (std::int64_t i = 0; i < width; ++i) bias[i] += source[width + i];
  }
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
