// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_rounding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_rounding.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_bf16-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

void round_to_bf16_block(const float* source, std::uint16_t* target, std::int64_t count) {
  for_lanes(count, [=](auto d, std::int64_t i)
                       HWY_ATTR { store_bf16(d, hn::LoadU(d, source + i), target + i); });
}

void round_as_fp32_block(const float* source, float* target, std::int64_t count) {
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::BitCast(d, rounded_bits(d, hn::LoadU(d, source + i))), d, target + i);
  });
}

void bf16_to_fp32_block(const std::uint16_t* source, float* target, std::int64_t count) {
  for_lanes(count, [=](auto d, std::int64_t i)
                       HWY_ATTR { hn::StoreU(load_bf16(d, source + i), d, target + i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <string>

#include "kernels/host_matmul.h"
#include "kernels/operands.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {

using kernels::ProductPrecision;

HWY_EXPORT(round_to_bf16_block);
HWY_EXPORT(round_as_fp32_block);
HWY_EXPORT(bf16_to_fp32_block);

void host_round_to_bf16(const float* source, std::uint16_t* target, std::int64_t count) {
  parallel_blocks(count, kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(round_to_bf16_block)(source + first, target + first, size);
  });
}

void host_round_as_fp32(const float* source, float* target, std::int64_t count) {
  parallel_blocks(count, kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(round_as_fp32_block)(source + first, target + first, size);
  });
}

void host_bf16_to_fp32(const std::uint16_t* source, float* target, std::int64_t count) {
  parallel_blocks(count, kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(bf16_to_fp32_block)(source + first, target + first, size);
  });
}

ProductRounding::ProductRounding(const kernels::Rounding& rounding)
    : precision_(rounding.precision) {
  if (precision_ != ProductPrecision::kFp32) scratch_ = rounding.scratch.host<float>();
}

float* ProductRounding::take(std::int64_t elements) {
  if (precision_ == ProductPrecision::kFp32) return nullptr;
  float* room = scratch_;
  scratch_ += kernels::rounding_elements(elements);
  return room;
}

ProductOperand ProductRounding::round(const float* source, std::int64_t elements,
                                      float* room) const {
  switch (precision_) {
    case ProductPrecision::kFp32:
      return {source, sizeof(float)};
    case ProductPrecision::kBf16: {
      auto* halves = reinterpret_cast<std::uint16_t*>(room);
      host_round_to_bf16(source, halves, elements);
      return {halves, sizeof(std::uint16_t)};
    }
    case ProductPrecision::kRoundedFp32:
      host_round_as_fp32(source, room, elements);
      return {room, sizeof(float)};
  }
  QD_CHECK_MSG(false, "an unknown precision of products");
  return {};
}

ProductOperand ProductRounding::take(const float* source, const void* halves,
                                     std::int64_t elements) {
  if (halves == nullptr) return round(source, elements);
  QD_CHECK(precision_ != ProductPrecision::kFp32);
  if (precision_ == ProductPrecision::kBf16) return {halves, sizeof(std::uint16_t)};
  float* room = take(elements);
  host_bf16_to_fp32(static_cast<const std::uint16_t*>(halves), room, elements);
  return {room, sizeof(float)};
}

void require_rounding(const kernels::Rounding& rounding, std::int64_t elements) {
  if (rounding.precision == ProductPrecision::kFp32) return;
  QD_CHECK_MSG(rounding.precision != ProductPrecision::kBf16 || host_multiplies_bf16(),
               "this host does not multiply bf16");
  QD_CHECK(rounding.scratch.dtype() == DType::kF32);
  QD_CHECK_MSG(rounding.scratch.elements() >= elements,
               "rounding needs scratch of " + std::to_string(elements) + " elements, it has " +
                   std::to_string(rounding.scratch.elements()));
}

void require_rounded(const TensorView& rounded, const Shape& shape,
                     const kernels::Rounding& rounding) {
  if (rounded.empty()) return;
  require(rounded, "the rounded matrix", DType::kU8, {shape[0], 2 * shape[1]});
  QD_CHECK_MSG(rounding.precision != ProductPrecision::kFp32,
               "a product of fp32 has no use for a rounded matrix");
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
