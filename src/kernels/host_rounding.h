// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A product's operands as the host multiplies them: where they lie, or rounded into scratch.

#include <cstdint>

#include "quadrille/kernels/rounding.h"

namespace quadrille::internal {

/// target[i] = source[i] rounded to bf16, as bf16 and as fp32.
void host_round_to_bf16(const float* source, std::uint16_t* target, std::int64_t count);
void host_round_as_fp32(const float* source, float* target, std::int64_t count);
void host_bf16_to_fp32(const std::uint16_t* source, float* target, std::int64_t count);

/// A matrix of fp32 or bf16.
struct ProductOperand {
  const void* data = nullptr;
  std::int64_t element_bytes = 4;
  /// The part that starts at `element`.
  [[nodiscard]] ProductOperand from(std::int64_t element) const {
    return {static_cast<const std::byte*>(data) + element * element_bytes, element_bytes};
  }
};

/// Hands out one operation's rounding scratch. Used in the body of a host operation only.
class ProductRounding {
 public:
  explicit ProductRounding(const kernels::Rounding& rounding);

  /// Room for an operand; null where none is rounded.
  [[nodiscard]] float* take(std::int64_t elements);
  /// `source` as a product takes it: itself, or its rounded values in `room`.
  [[nodiscard]] ProductOperand round(const float* source, std::int64_t elements, float* room) const;
  [[nodiscard]] ProductOperand round(const float* source, std::int64_t elements) {
    return round(source, elements, take(elements));
  }
  /// The same of what to_bf16() made of the source; the source itself where that is null.
  [[nodiscard]] ProductOperand take(const float* source, const void* halves, std::int64_t elements);
  [[nodiscard]] bool bf16() const { return precision_ == kernels::ProductPrecision::kBf16; }

 private:
  kernels::ProductPrecision precision_;
  float* scratch_ = nullptr;
};

/// Refuses scratch of less than `elements` and a precision that this host does not have.
void require_rounding(const kernels::Rounding& rounding, std::int64_t elements);
/// Refuses `rounded` that is neither empty nor to_bf16()'s of a matrix of `shape`.
void require_rounded(const TensorView& rounded, const Shape& shape,
                     const kernels::Rounding& rounding);

}  // namespace quadrille::internal
