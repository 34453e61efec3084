// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set by host_*.cc (Highway's pattern, hence the toggled guard in
// place of #pragma once): loops over lanes and the exponential that they share.
#if defined(QUADRILLE_HOST_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUADRILLE_HOST_LANES_INL_H_
#undef QUADRILLE_HOST_LANES_INL_H_
#else
#define QUADRILLE_HOST_LANES_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// lanes(tag, i) over [0, count): whole vectors, then single lanes. The same arithmetic acts on
/// both, so an element's result does not depend on where it stands.
template <class Lanes>
HWY_INLINE void for_lanes(std::int64_t count, const Lanes& lanes) {
  const hn::ScalableTag<float> whole;
  const auto width = static_cast<std::int64_t>(hn::Lanes(whole));
  std::int64_t i = 0;
  for (; i + width <= count; i += width) lanes(whole, i);
  const hn::CappedTag<float, 1> single;
  for (; i < count; ++i) lanes(single, i);
}

/// e^x. Unlike Highway's, which maps NaN to 0, it keeps NaN, so that a bad number reaches the loss.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exponential(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

/// Sum over i of terms(tag, i); four chains hide the latency of an addition.
template <class Terms>
HWY_INLINE float sum_lanes(std::int64_t count, const Terms& terms) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * width <= count; i += 4 * width) {
    sum0 = hn::Add(sum0, terms(d, i));
    sum1 = hn::Add(sum1, terms(d, i + width));
    sum2 = hn::Add(sum2, terms(d, i + 2 * width));
    sum3 = hn::Add(sum3, terms(d, i + 3 * width));
  }
  for (; i + width <= count; i += width) sum0 = hn::Add(sum0, terms(d, i));
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  const hn::CappedTag<float, 1> single;
  for (; i < count; ++i) sum += hn::GetLane(terms(single, i));
  return sum;
}

HWY_INLINE float dot(const float* a, const float* b, std::int64_t count) {
  return sum_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#endif  // QUADRILLE_HOST_LANES_INL_H_
