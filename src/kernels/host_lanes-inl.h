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

/// e^x within 2 units in the last place; 0 below -87.3 where a float would lose digits, at most
/// e^88. NaN stays NaN, so that a bad number reaches the loss. Source: Cody & Waite 1980, "Software
/// manual for the elementary functions", chapter 6, with the minimax polynomial of Cephes' expf.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exponential(D d, V x) {
  // x = n ln 2 + r, |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to a whole number in the low bits of
  // the mantissa; with 127 added they are the exponent's bits of 2^n.
  const V shift = hn::Set(d, 0x1.8p23F + 127.0F);
  const V most = hn::Set(d, 88.0F);
  const V clipped = hn::IfThenElse(hn::Gt(x, most), most, x);
  const V shifted = hn::MulAdd(clipped, hn::Set(d, 1.44269504F), shift);
  const V n = hn::Sub(shifted, shift);
  // ln 2 in two parts, the first short enough for n times it to be exact.
  const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F),
                            hn::NegMulAdd(n, hn::Set(d, 0.693359375F), clipped));
  V p = hn::MulAdd(hn::Set(d, 1.9875691500e-4F), r, hn::Set(d, 1.3981999507e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1F));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, hn::Set(d, 1.0F)));
  const hn::RebindToUnsigned<D> bits;
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3F)), hn::Mul(p, power));
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
