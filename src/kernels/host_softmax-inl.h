// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set by host_*.cc (Highway's pattern, as host_lanes-inl.h): the two
// passes over a row that a softmax begins with.
#if defined(QUADRILLE_HOST_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUADRILLE_HOST_SOFTMAX_INL_H_
#undef QUADRILLE_HOST_SOFTMAX_INL_H_
#else
#define QUADRILLE_HOST_SOFTMAX_INL_H_
#endif

#include <algorithm>

#include "kernels/host_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// The largest of the row's numbers; any number if one is NaN, which then shows in the sum.
HWY_INLINE float largest(const float* row, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  float most = row[0];
  std::int64_t i = 0;
  if (count >= width) {
    auto lanes = hn::LoadU(d, row);
    for (i = width; i + width <= count; i += width) lanes = hn::Max(lanes, hn::LoadU(d, row + i));
    most = hn::GetLane(hn::MaxOfLanes(d, lanes));
  }
  for (; i < count; ++i) most = std::max(most, row[i]);
  return most;
}

/// Replaces the row by e^(x - most) and returns its sum.
HWY_INLINE float exponentiate(float* row, std::int64_t count, float most) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  auto lanes = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + width <= count; i += width) {
    const auto e = exponential(d, hn::Sub(hn::LoadU(d, row + i), hn::Set(d, most)));
    hn::StoreU(e, d, row + i);
    lanes = hn::Add(lanes, e);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  const hn::CappedTag<float, 1> single;
  for (; i < count; ++i) {
    const auto e = exponential(single, hn::Sub(hn::LoadU(single, row + i), hn::Set(single, most)));
    hn::StoreU(e, single, row + i);
    sum += hn::GetLane(e);
  }
  return sum;
}

/// row *= factor.
HWY_INLINE void scale(float* row, std::int64_t count, float factor) {
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor)), d, row + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#endif  // QUADRILLE_HOST_SOFTMAX_INL_H_
