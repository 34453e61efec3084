// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The rounding to bf16 as its definition says it: of the two neighbours the nearer one.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace quadrille::test {

/// A bf16 number is a float whose lower 16 bits are 0. Beyond the largest one comes infinity, which
/// rounding takes for 2^128.
inline float nearest_bf16(float x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t inner = bits & 0xFFFF0000U;
  const std::uint32_t outer = inner + 0x10000U;
  const auto value = [](std::uint32_t b) {
    const auto number = double{std::bit_cast<float>(b)};
    return std::isinf(number) ? std::copysign(std::ldexp(1.0, 128), number) : number;
  };
  const double to_inner = std::abs(x - value(inner));
  const double to_outer = std::abs(value(outer) - x);
  const bool inner_is_even = (inner & 0x10000U) == 0;
  const bool stays = to_inner < to_outer || (to_inner == to_outer && inner_is_even);
  return std::bit_cast<float>(stays ? inner : outer);
}

/// The most by which rounding moves a number, relative to it: half of 2^-7.
inline constexpr double kBf16Rounding = 0x1p-8;

}  // namespace quadrille::test
