// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set by host_*.cc (Highway's pattern, hence the toggled guard in
// place of #pragma once): bf16 in memory, fp32 in lanes.
#if defined(QUADRILLE_HOST_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUADRILLE_HOST_BF16_INL_H_
#undef QUADRILLE_HOST_BF16_INL_H_
#else
#define QUADRILLE_HOST_BF16_INL_H_
#endif

#include "kernels/host_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// The bits of x rounded to bf16, in the upper half of each lane; the lower half is 0. Half a unit
/// in the last place less one, plus the last bit that stays, carries into it exactly when x is
/// nearer to the number above or ties with an odd one below. A carry out of a NaN's digits could
/// make it infinite, so NaN is cut off and made quiet instead.
template <class D, class V = hn::Vec<D>, class D32 = hn::RebindToUnsigned<D>>
HWY_INLINE hn::Vec<D32> rounded_bits(D, V x) {
  const D32 words;
  const auto bits = hn::BitCast(words, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1U));
  const auto nearest = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7FFFU)));
  const auto quiet = hn::Or(bits, hn::Set(words, 0x00400000U));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(x));
  return hn::And(hn::IfThenElse(is_nan, quiet, nearest), hn::Set(words, 0xFFFF0000U));
}

template <class D>
HWY_INLINE hn::Vec<D> load_bf16(D d, const std::uint16_t* from) {
  const hn::Rebind<std::uint16_t, D> halves;
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::PromoteTo(words, hn::LoadU(halves, from));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE void store_bf16(D d, hn::Vec<D> value, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, D> halves;
  hn::StoreU(hn::TruncateTo(halves, hn::ShiftRight<16>(rounded_bits(d, value))), halves, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#endif  // QUADRILLE_HOST_BF16_INL_H_
