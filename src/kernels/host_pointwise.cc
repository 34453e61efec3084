// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_pointwise.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

void fill_block(float* target, std::int64_t count, float value) {
  for_lanes(count,
            [=](auto d, std::int64_t i) HWY_ATTR { hn::StoreU(hn::Set(d, value), d, target + i); });
}

void add_block(const float* source, float* target, std::int64_t count) {
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, target + i), hn::LoadU(d, source + i)), d, target + i);
  });
}

void scale_block(float* target, std::int64_t count, float factor) {
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, target + i), hn::Set(d, factor)), d, target + i);
  });
}

// x/2 (1 + tanh u) = x sigmoid(2u), which costs one exponential and loses no digits for small y.
constexpr float kTwoRootTwoOverPi = 1.5957691216057308F;
constexpr float kCubic = 0.044715F;
// e^80 and its square's reciprocal stay finite; sigmoid(-80) is far below a float's resolution
// of 1.
constexpr float kMostExponent = 80.0F;

/// e^(-2u), u = sqrt(2/pi) (x + 0.044715 x^3); NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_exponential(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(hn::Set(d, kCubic), hn::Mul(x, x)), x, x);
  const V exponent = hn::Mul(hn::Set(d, -kTwoRootTwoOverPi), cubic);
  const V clipped = hn::IfThenElse(hn::Gt(exponent, hn::Set(d, kMostExponent)),
                                   hn::Set(d, kMostExponent), exponent);
  return exponential(d, clipped);
}

void gelu_forward_block(const float* x, float* y, std::int64_t count) {
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    const auto e = gelu_exponential(d, value);
    hn::StoreU(hn::Div(value, hn::Add(hn::Set(d, 1.0F), e)), d, y + i);
  });
}

// With s = sigmoid(2u): d/dx (x s) = s + x s (1 - s) 2u', and 1 - s = e^(-2u) s.
void gelu_backward_block(const float* x, const float* dy, float* dx, std::int64_t count) {
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto one = hn::Set(d, 1.0F);
    const auto value = hn::LoadU(d, x + i);
    const auto e = gelu_exponential(d, value);
    const auto s = hn::Div(one, hn::Add(one, e));
    const auto slope =
        hn::Mul(hn::Set(d, kTwoRootTwoOverPi),
                hn::MulAdd(hn::Mul(hn::Set(d, 3 * kCubic), value), value, one));  // 2u'
    const auto rest = hn::Mul(hn::Mul(value, slope), hn::Mul(e, s));
    const auto derivative = hn::MulAdd(s, rest, s);
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), derivative), d, dx + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {

HWY_EXPORT(fill_block);
HWY_EXPORT(add_block);
HWY_EXPORT(scale_block);
HWY_EXPORT(gelu_forward_block);
HWY_EXPORT(gelu_backward_block);

void host_fill(float* target, std::int64_t count, float value) {
  parallel_blocks(count, kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(fill_block)(target + first, size, value);
  });
}

void host_add(const float* source, float* target, std::int64_t count) {
  parallel_blocks(count, kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(add_block)(source + first, target + first, size);
  });
}

void host_scale(float* target, std::int64_t count, float factor) {
  parallel_blocks(count, kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(scale_block)(target + first, size, factor);
  });
}

void host_gelu_forward(const float* x, float* y, std::int64_t count) {
  parallel_blocks(count, kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(gelu_forward_block)(x + first, y + first, size);
  });
}

void host_gelu_backward(const float* x, const float* dy, float* dx, std::int64_t count) {
  parallel_blocks(count, kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(gelu_backward_block)(x + first, dy + first, dx + first, size);
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
