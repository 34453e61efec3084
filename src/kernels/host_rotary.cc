// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_rotary.h"

#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_rotary.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// Turns `heads` heads of 2 * half numbers that stand side by side.
void turn_heads(float* x, std::int64_t heads, const std::vector<float>& cosines,
                const std::vector<float>& sines) {
  const auto half = static_cast<std::int64_t>(cosines.size());
  const float* cosine = cosines.data();
  const float* sine = sines.data();
  for (std::int64_t head = 0; head < heads; ++head) {
    float* first = x + head * 2 * half;
    float* second = first + half;
    for_lanes(half, [=](auto d, std::int64_t i) HWY_ATTR {
      const auto c = hn::LoadU(d, cosine + i);
      const auto s = hn::LoadU(d, sine + i);
      const auto a = hn::LoadU(d, first + i);
      const auto b = hn::LoadU(d, second + i);
      hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, first + i);
      hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, second + i);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {

HWY_EXPORT(turn_heads);

namespace {

/// Angles in float64: at position 10^5 a float32 angle would be off by up to 4e-3.
void find_turns(const kernels::Rotary& arguments, std::int64_t position,
                std::vector<float>& cosines, std::vector<float>& sines) {
  cosines.clear();
  sines.clear();
  const double direction = arguments.inverse ? -1 : 1;
  for (const double frequency : arguments.frequencies) {
    const double angle = direction * frequency * static_cast<double>(position);
    cosines.push_back(static_cast<float>(std::cos(angle)));
    sines.push_back(static_cast<float>(std::sin(angle)));
  }
}

}  // namespace

void host_rotary(const kernels::Rotary& arguments) {
  const Shape& queries = arguments.queries.shape();
  const Shape& keys = arguments.keys.shape();
  const auto width = static_cast<std::int64_t>(2 * arguments.frequencies.size());
  constexpr std::int64_t kPositions = 8;
  parallel_blocks(queries[1], kPositions, [&](std::int64_t first, std::int64_t count) {
    thread_local std::vector<float> cosines;
    thread_local std::vector<float> sines;
    for (std::int64_t t = first; t < first + count; ++t) {
      find_turns(arguments, arguments.first_position + t, cosines, sines);
      for (std::int64_t b = 0; b < queries[0]; ++b) {
        const std::int64_t row = b * queries[1] + t;
        HWY_DYNAMIC_DISPATCH(turn_heads)
        (arguments.queries.host<float>() + row * queries[2], queries[2] / width, cosines, sines);
        HWY_DYNAMIC_DISPATCH(turn_heads)
        (arguments.keys.host<float>() + row * keys[2], keys[2] / width, cosines, sines);
      }
    }
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
