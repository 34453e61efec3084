// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_swiglu.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// e^-x, at most e^80 so that sums and products with it stay finite; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_exponential(D d, V x) {
  const V most = hn::Set(d, 80.0F);
  const V exponent = hn::Neg(x);
  return exponential(d, hn::IfThenElse(hn::Gt(exponent, most), most, exponent));
}

void swiglu_forward_block(const HostSwiglu& arguments) {
  const HostSwiglu a = arguments;
  for_lanes(a.count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto gate = hn::LoadU(d, a.gate + i);
    const auto silu = hn::Div(gate, hn::Add(hn::Set(d, 1.0F), sigmoid_exponential(d, gate)));
    hn::StoreU(hn::Mul(silu, hn::LoadU(d, a.up + i)), d, a.y + i);
  });
}

// With s = sigmoid(g): d/dg (g s) = s + g s (1 - s), and 1 - s = e^-g s.
void swiglu_backward_block(const HostSwigluBackward& arguments) {
  const HostSwigluBackward a = arguments;
  for_lanes(a.count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto one = hn::Set(d, 1.0F);
    const auto gate = hn::LoadU(d, a.gate + i);
    const auto up = hn::LoadU(d, a.up + i);
    const auto dy = hn::LoadU(d, a.dy + i);
    const auto e = sigmoid_exponential(d, gate);
    const auto s = hn::Div(one, hn::Add(one, e));
    const auto slope = hn::MulAdd(s, hn::Mul(gate, hn::Mul(e, s)), s);
    hn::StoreU(hn::Mul(hn::Mul(dy, up), slope), d, a.dgate + i);
    hn::StoreU(hn::Mul(dy, hn::Mul(gate, s)), d, a.dup + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {

HWY_EXPORT(swiglu_forward_block);
HWY_EXPORT(swiglu_backward_block);

void host_swiglu_forward(const HostSwiglu& arguments) {
  const HostSwiglu a = arguments;
  parallel_blocks(a.count, kElementBlock, [=](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(swiglu_forward_block)
    ({.gate = a.gate + first, .up = a.up + first, .y = a.y + first, .count = count});
  });
}

void host_swiglu_backward(const HostSwigluBackward& arguments) {
  const HostSwigluBackward a = arguments;
  parallel_blocks(a.count, kElementBlock, [=](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(swiglu_backward_block)
    ({.gate = a.gate + first,
      .up = a.up + first,
      .dy = a.dy + first,
      .dgate = a.dgate + first,
      .dup = a.dup + first,
      .count = count});
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
