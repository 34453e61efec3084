// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Normal numbers by the vector, equal to RandomStream::normal to the last bit. Logarithm, sine and
// cosine of whole vectors differ from the C library's in the last bits of a double, which nearly
// always round to the same float. Where they might not, the number is drawn the slow way: about one
// in half a million.

#include <algorithm>
#include <numbers>

#include "kernels/host_pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_normal.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include <hwy/contrib/math/math-inl.h>

#include "kernels/host_parallel.h"
#include "kernels/host_philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

using Doubles = hn::ScalableTag<double>;

constexpr std::int64_t kDraws = 1024;
constexpr std::int64_t kPairs = kDraws / 2;

/// What a number lies between: equal but for the doubtful ones.
struct NormalBounds {
  HWY_ALIGN float low[kDraws / 2];
  HWY_ALIGN float high[kDraws / 2];
};

/// The value of unsigned words from which 2^31 was taken.
template <class D>
HWY_INLINE hn::Vec<D> words_of(D d, const std::int32_t* HWY_RESTRICT shifted) {
  const hn::Rebind<std::int32_t, D> words;
  return hn::Add(hn::PromoteTo(d, hn::Load(words, shifted)), hn::Set(d, 0x1p31));
}

template <class D>
HWY_INLINE void store_bounds(D, hn::Vec<D> value, hn::Vec<D> error, std::int64_t at,
                             NormalBounds& bounds) {
  const hn::Rebind<float, D> floats;
  hn::Store(hn::DemoteTo(floats, hn::Sub(value, error)), floats, bounds.low + at);
  hn::Store(hn::DemoteTo(floats, hn::Add(value, error)), floats, bounds.high + at);
}

/// Box-Muller of kPairs pairs. The vector functions are off by at most 4 units in the last place of
/// about 2^-53 each; 2^-45 of the radius is beyond what that can add up to.
HWY_INLINE void normal_pairs(const std::int32_t* HWY_RESTRICT radii,
                             const std::int32_t* HWY_RESTRICT angles, NormalBounds& cosines,
                             NormalBounds& sines) {
  const Doubles d;
  for (std::int64_t i = 0; i < kPairs; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    // The same roundings as the slow way's.
    const auto draw =
        hn::Mul(hn::Add(words_of(d, radii + i), hn::Set(d, 1.0)), hn::Set(d, 0x1p-32));
    const auto angle = hn::Mul(hn::Mul(hn::Set(d, 2 * std::numbers::pi), words_of(d, angles + i)),
                               hn::Set(d, 0x1p-32));
    const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), hn::Log(d, draw)));
    const auto error = hn::Mul(radius, hn::Set(d, 0x1p-45));
    store_bounds(d, hn::Mul(radius, hn::Cos(d, angle)), error, i, cosines);
    store_bounds(d, hn::Mul(radius, hn::Sin(d, angle)), error, i, sines);
  }
}

/// Numbers [index, index + count) of the stream, count <= kDraws and `index` a multiple of 4.
HWY_INLINE void normal_piece(const RandomStream& random, std::uint64_t index, std::int64_t count,
                             float deviation, float* HWY_RESTRICT target) {
  const hn::ScalableTag<std::uint32_t> words;
  const auto per_call = 4 * static_cast<std::int64_t>(hn::Lanes(words));
  HWY_ALIGN std::uint32_t bits[kDraws + 4 * hn::MaxLanes(hn::ScalableTag<std::uint32_t>())];
  for (std::int64_t i = 0; i < kDraws; i += per_call) {
    philox_words(words, random, (index + static_cast<std::uint64_t>(i)) / 4, bits + i);
  }
  HWY_ALIGN std::int32_t radii[kPairs];
  HWY_ALIGN std::int32_t angles[kPairs];
  for (std::int64_t i = 0; i < kPairs; ++i) {
    radii[i] = static_cast<std::int32_t>(bits[2 * i] ^ 0x80000000U);
    angles[i] = static_cast<std::int32_t>(bits[2 * i + 1] ^ 0x80000000U);
  }
  NormalBounds cosines;
  NormalBounds sines;
  normal_pairs(radii, angles, cosines, sines);
  for (std::int64_t i = 0; i < count; ++i) {
    const NormalBounds& bounds = i % 2 == 0 ? cosines : sines;
    // Zero has a sign, which bounds do not tell.
    const bool certain = bounds.low[i / 2] == bounds.high[i / 2] && bounds.low[i / 2] != 0;
    target[i] = deviation * (certain ? bounds.low[i / 2]
                                     : random.normal(index + static_cast<std::uint64_t>(i)));
  }
}

void normal_block(const RandomStream& random, std::int64_t first, std::int64_t count,
                  float deviation, float* target) {
  for (std::int64_t i = first; i < first + count; i += kDraws) {
    normal_piece(random, static_cast<std::uint64_t>(i), std::min(kDraws, first + count - i),
                 deviation, target + i);
  }
}

/// Numbers [index, index + count) of the stream, wherever they begin.
void normal_run(const RandomStream& random, std::int64_t index, std::int64_t count, float deviation,
                float* target) {
  HWY_ALIGN float drawn[kDraws];
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t before = (index + done) % 4;
    const std::int64_t size = std::min(kDraws - before, count - done);
    normal_piece(random, static_cast<std::uint64_t>(index + done - before), before + size,
                 deviation, drawn);
    std::copy_n(drawn + before, size, target + done);
    done += size;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {

HWY_EXPORT(normal_block);
HWY_EXPORT(normal_run);

void host_fill_normal(const HostFillNormal& arguments) {
  static_assert(kElementBlock % 4 == 0, "a block begins with a counter of its own");
  const auto& [random, deviation, target, count, runs] = arguments;
  const std::int64_t length = runs.length == 0 ? count : runs.length;
  const auto whole = [&](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(normal_block)(random, first, size, deviation, target);
  };
  const auto in_runs = [&](std::int64_t first, std::int64_t size) {
    for (std::int64_t i = first; i < first + size;) {
      const std::int64_t rest = std::min(length - i % length, first + size - i);
      HWY_DYNAMIC_DISPATCH(normal_run)(random, runs.index(i), rest, deviation, target + i);
      i += rest;
    }
  };
  if (runs.first == 0 && length >= count) return parallel_blocks(count, kElementBlock, whole);
  parallel_blocks(count, kElementBlock, in_runs);
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
