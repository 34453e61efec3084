// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a matrix product treats its operands. Values stay fp32 in memory (weights, activations and
// gradients alike); a bf16 product rounds its operands as it begins and sums in fp32. Where the
// processor does not multiply bf16, the rounded values are multiplied as fp32: a product of two
// bf16 numbers is exact in fp32, so both differ by the order of their sums alone, and by numbers
// below 2^-126, which the instructions take for zero.

#include <cstdint>

#include "quadrille/device/tensor_view.h"

namespace quadrille::kernels {

enum class ProductPrecision : std::uint8_t {
  kFp32,
  kBf16,         ///< Rounded to bf16 and multiplied by the processor's bf16 instructions.
  kRoundedFp32,  ///< Rounded to bf16 and multiplied as fp32.
};

/// Rounds to the nearest, ties to even; NaN stays NaN.
struct Rounding {
  ProductPrecision precision = ProductPrecision::kFp32;
  /// F32, overwritten; unused without rounding. At least rounding_elements() of each operand.
  TensorView scratch;
};

/// The scratch that an operand of `elements` takes: it starts on a cache line.
[[nodiscard]] constexpr std::int64_t rounding_elements(std::int64_t elements) {
  return (elements + 15) / 16 * 16;
}

/// How this host multiplies bf16: kBf16, or kRoundedFp32 where the processor or the library behind
/// matmul() cannot. kBf16 must not be asked for where this says kRoundedFp32.
[[nodiscard]] ProductPrecision bf16_products();

}  // namespace quadrille::kernels
