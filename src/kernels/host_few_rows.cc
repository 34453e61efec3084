// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_few_rows.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "kernels/host_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_few_rows.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// Weights as fp32 lanes.
template <class D>
HWY_INLINE hn::Vec<D> load_weights(D d, const float* weights) {
  return hn::LoadU(d, weights);
}
template <class D>
HWY_INLINE hn::Vec<D> load_weights(D d, const std::uint16_t* weights) {
  return load_bf16(d, weights);
}

/// kOutputs x kRows sums, each one chain over k: a sum does not depend on what is computed beside
/// it. The outputs' next weights are asked for while these are used, since rows of weights are too
/// short for the processor to find its own way ahead.
template <std::size_t kOutputs, std::size_t kRows, class Weight>
HWY_INLINE void sums_of(const FewRows& p, const Weight* weights, std::int64_t row,
                        std::int64_t output) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT x = p.x + row * p.x_row;
  const Weight* HWY_RESTRICT w = weights + output * p.k;
  const auto ahead = static_cast<std::int64_t>(kOutputs) * p.k;
  hn::Vec<decltype(d)> sums[kOutputs][kRows];
#pragma GCC unroll 16
  for (std::size_t o = 0; o < kOutputs; ++o) {
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) sums[o][r] = hn::Zero(d);
  }
  std::int64_t i = 0;
  for (; i + width <= p.k; i += width) {
    hn::Vec<decltype(d)> factors[kOutputs];
#pragma GCC unroll 16
    for (std::size_t o = 0; o < kOutputs; ++o) {
      const Weight* place = w + static_cast<std::int64_t>(o) * p.k + i;
      factors[o] = load_weights(d, place);
      __builtin_prefetch(place + ahead, 0, 2);  // to the second level, whose misses are more
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto term = hn::LoadU(d, x + static_cast<std::int64_t>(r) * p.x_row + i);
#pragma GCC unroll 16
      for (std::size_t o = 0; o < kOutputs; ++o) {
        sums[o][r] = hn::MulAdd(factors[o], term, sums[o][r]);
      }
    }
  }
  const hn::CappedTag<float, 1> single;
  for (std::size_t r = 0; r < kRows; ++r) {
    float* y = p.y + (row + static_cast<std::int64_t>(r)) * p.n + output;
    for (std::size_t o = 0; o < kOutputs; ++o) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[o][r]));
      for (std::int64_t rest = i; rest < p.k; ++rest) {
        const auto factor = load_weights(single, w + static_cast<std::int64_t>(o) * p.k + rest);
        sum += hn::GetLane(factor) * x[static_cast<std::int64_t>(r) * p.x_row + rest];
      }
      if (p.bias != nullptr) sum += p.bias[output + static_cast<std::int64_t>(o)];
      y[o] = p.accumulate ? y[o] + sum : sum;
    }
  }
}

// The sums of a group stay in registers: AVX-512 has 32 of them, what came before it 16.
constexpr std::size_t kRowsTogether = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
constexpr std::size_t outputs_together(std::size_t rows) {
  if (HWY_TARGET <= HWY_AVX3) return rows <= 4 ? 4 : 3;
  return rows <= 2 ? 4 : 2;
}

template <std::size_t kRows, class Weight>
HWY_INLINE void outputs_of(const FewRows& p, const Weight* weights, std::int64_t row,
                           std::pair<std::int64_t, std::int64_t> outputs) {
  constexpr std::size_t kOutputs = outputs_together(kRows);
  constexpr auto kStep = static_cast<std::int64_t>(kOutputs);
  std::int64_t output = outputs.first;
  for (; output + kStep <= outputs.second; output += kStep) {
    sums_of<kOutputs, kRows>(p, weights, row, output);
  }
  for (; output < outputs.second; ++output) sums_of<1, kRows>(p, weights, row, output);
}

/// Outputs [first, second) for all rows: their weights are few enough to stay in cache from one
/// group of rows to the next.
template <class Weight>
HWY_INLINE void all_rows(const FewRows& p, const Weight* weights,
                         std::pair<std::int64_t, std::int64_t> outputs) {
  constexpr auto kMost = static_cast<std::int64_t>(kRowsTogether);
  std::int64_t row = 0;
  for (; row + kMost <= p.rows; row += kMost) {
    outputs_of<kRowsTogether>(p, weights, row, outputs);
  }
  switch (p.rows - row) {
    case 1:
      return outputs_of<1>(p, weights, row, outputs);
    case 2:
      return outputs_of<2>(p, weights, row, outputs);
    case 3:
      return outputs_of<3>(p, weights, row, outputs);
    default:
      break;
  }
  if constexpr (kRowsTogether > 4) {
    switch (p.rows - row) {
      case 4:
        return outputs_of<4>(p, weights, row, outputs);
      case 5:
        return outputs_of<5>(p, weights, row, outputs);
      case 6:
        return outputs_of<6>(p, weights, row, outputs);
      case 7:
        return outputs_of<7>(p, weights, row, outputs);
      default:
        break;
    }
  }
}

void few_rows_part(const FewRows& p, std::int64_t first, std::int64_t last) {
  if (p.weight != nullptr) return all_rows(p, p.weight, {first, last});
  all_rows(p, p.weight_bf16, {first, last});
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

/// Weights that a thread passes all rows over before it goes on: a part of a second-level cache.
constexpr std::int64_t kPartElements = 65536;
/// A multiple of all numbers of outputs that are computed together.
constexpr std::int64_t kOutputsStep = 12;
/// Below this many weights a second thread costs more than it saves.
constexpr std::int64_t kLeastParallel = 32768;

/// Rows whose distance is a multiple of this many floats fall on few sets of a first-level cache
/// and drive each other out.
constexpr std::int64_t kAliasing = 512;
constexpr std::int64_t kLeastAliasing = 5;

/// The product with its rows of x farther apart where they would be in each other's way.
FewRows spread_rows(const FewRows& product) {
  FewRows spread = product;
  spread.x_row = product.k;
  if (product.rows < kLeastAliasing || product.k % kAliasing != 0) return spread;
  constexpr std::int64_t kLine = 16;
  thread_local TileScratch scratch;
  spread.x_row = product.k + kLine;
  scratch.reserve(product.rows * spread.x_row);
  float* x = scratch.take(product.rows * spread.x_row);
  for (std::int64_t row = 0; row < product.rows; ++row) {
    std::copy_n(product.x + row * product.k, product.k, x + row * spread.x_row);
  }
  spread.x = x;
  return spread;
}

}  // namespace

HWY_EXPORT(few_rows_part);

void host_few_rows(const FewRows& given) {
  const FewRows product = spread_rows(given);
  const std::int64_t step =
      std::max<std::int64_t>(1,
                             kPartElements / std::max<std::int64_t>(1, product.k) / kOutputsStep) *
      kOutputsStep;
  // Each thread reads one piece of memory from front to end.
#pragma omp parallel if (product.n * product.k >= kLeastParallel)
  {
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t steps = (product.n + kOutputsStep - 1) / kOutputsStep;
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t last = std::min(product.n, steps * (thread + 1) / threads * kOutputsStep);
    for (std::int64_t first = steps * thread / threads * kOutputsStep; first < last;
         first += step) {
      HWY_DYNAMIC_DISPATCH(few_rows_part)(product, first, std::min(last, first + step));
    }
  }
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
