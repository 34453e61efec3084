// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_sampling.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_sampling.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// The largest of the logits; NaN where one of them is not finite.
float largest_block(const float* logits, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  const float lowest = -std::numeric_limits<float>::infinity();
  auto most = hn::Set(d, lowest);
  // x - x is 0 for finite x and NaN for others, which the sum keeps.
  auto doubt = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + width <= count; i += width) {
    const auto x = hn::LoadU(d, logits + i);
    most = hn::Max(most, x);
    doubt = hn::Add(doubt, hn::Sub(x, x));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  float doubts = hn::GetLane(hn::SumOfLanes(d, doubt));
  for (; i < count; ++i) {
    largest = std::max(largest, logits[i]);
    doubts += logits[i] - logits[i];
  }
  return doubts == 0 ? largest : std::numeric_limits<float>::quiet_NaN();
}

double weights_block(const float* logits, std::int64_t count, float largest, float factor,
                     float* weights) {
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto below = hn::Sub(hn::LoadU(d, logits + i), hn::Set(d, largest));
    hn::StoreU(exponential(d, hn::Mul(below, hn::Set(d, factor))), d, weights + i);
  });
  return static_cast<double>(
      sum_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, weights + i); }));
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

using kernels::kSamplingBlock;

struct Row {
  const float* logits = nullptr;
  float* weights = nullptr;
  double* sums = nullptr;
};

}  // namespace

HWY_EXPORT(largest_block);
HWY_EXPORT(weights_block);

void host_sampling_weights(const kernels::SamplingWeights& arguments) {
  const std::int64_t vocab = arguments.logits.shape()[1];
  const std::int64_t known = arguments.known;
  const std::int64_t blocks = (known + kSamplingBlock - 1) / kSamplingBlock;
  // A tiny temperature must not turn the largest logit's 0 into 0 * infinity.
  const auto factor = static_cast<float>(
      std::min(arguments.inverse_temperature, double{std::numeric_limits<float>::max()}));
  parallel_tasks(arguments.logits.shape()[0], [&](std::int64_t b) {
    const Row row{.logits = arguments.logits.host<float>() + b * vocab,
                  .weights = arguments.weights.host<float>() + b * known,
                  .sums = arguments.sums.host<double>() + b * blocks};
    std::int32_t& best = arguments.best.host<std::int32_t>()[b];
    const float largest = HWY_DYNAMIC_DISPATCH(largest_block)(row.logits, known);
    const float* place = std::find(row.logits, row.logits + known, largest);
    best = place == row.logits + known ? -1 : static_cast<std::int32_t>(place - row.logits);
    if (best < 0) return;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = block * kSamplingBlock;
      row.sums[block] = HWY_DYNAMIC_DISPATCH(weights_block)(row.logits + first,
                                                            std::min(kSamplingBlock, known - first),
                                                            largest, factor, row.weights + first);
    }
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
