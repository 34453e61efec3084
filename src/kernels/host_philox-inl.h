// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set by host_*.cc (Highway's pattern, hence the toggled guard in
// place of #pragma once): whole vectors of Philox counters. Source: Salmon et al. 2011, "Parallel
// random numbers: as easy as 1, 2, 3", section 4.3.
#if defined(QUADRILLE_HOST_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUADRILLE_HOST_PHILOX_INL_H_
#undef QUADRILLE_HOST_PHILOX_INL_H_
#else
#define QUADRILLE_HOST_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "quadrille/base/random.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The high and low halves of 32 x 32 bit products, lane by lane.
template <class D>
struct Halves {
  hn::Vec<D> high;
  hn::Vec<D> low;
};
/// `b` is the same in all lanes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE Halves<D> multiply_words(D words, V a, V b) {
  const hn::Repartition<std::uint64_t, D> pairs;
  const auto odd_a = hn::BitCast(words, hn::ShiftRight<32>(hn::BitCast(pairs, a)));
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(odd_a, b);
  const auto even_high = hn::BitCast(words, hn::ShiftRight<32>(even));
  const auto odd_low = hn::BitCast(words, hn::ShiftLeft<32>(odd));
  return {hn::OddEven(hn::BitCast(words, odd), even_high),
          hn::OddEven(odd_low, hn::BitCast(words, even))};
}

/// bits[i] = the stream's bits(4 * counter + i) for 4 * Lanes(words) values of i. A template, so
/// that the one-lane target, which has no products of pairs, can leave the vector code out.
template <class D>
HWY_INLINE void philox_words(D words, const RandomStream& stream, std::uint64_t counter,
                             std::uint32_t* HWY_RESTRICT bits) {
  if constexpr (HWY_TARGET == HWY_SCALAR) {
    const auto draws = philox(stream.key(), counter, stream.counter_high());
    std::copy(draws.begin(), draws.end(), bits);
  } else {
    const auto low = static_cast<std::uint32_t>(counter);
    const auto high = static_cast<std::uint32_t>(counter >> 32);
    auto x0 = hn::Iota(words, low);
    // A lane whose low word wrapped carries into the next.
    auto x1 = hn::IfThenElse(hn::Lt(x0, hn::Set(words, low)), hn::Set(words, high + 1),
                             hn::Set(words, high));
    auto x2 = hn::Set(words, static_cast<std::uint32_t>(stream.counter_high()));
    auto x3 = hn::Set(words, static_cast<std::uint32_t>(stream.counter_high() >> 32));
    auto key0 = static_cast<std::uint32_t>(stream.key());
    auto key1 = static_cast<std::uint32_t>(stream.key() >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto first = multiply_words(words, x0, hn::Set(words, 0xD2511F53U));
      const auto second = multiply_words(words, x2, hn::Set(words, 0xCD9E8D57U));
      x0 = hn::Xor(hn::Xor(second.high, x1), hn::Set(words, key0));
      x1 = second.low;
      x2 = hn::Xor(hn::Xor(first.high, x3), hn::Set(words, key1));
      x3 = first.low;
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    hn::StoreInterleaved4(x0, x1, x2, x3, words, bits);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
