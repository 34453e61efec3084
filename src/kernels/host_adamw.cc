// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_adamw.h"

#include <cmath>

#include "kernels/host_pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_adamw.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

void adamw_block(const AdamWFactors& f, const AdamWArrays& arrays, std::int64_t first,
                 std::int64_t count) {
  float* parameter = arrays.parameter + first;
  const float* gradient = arrays.gradient + first;
  float* first_moment = arrays.first_moment + first;
  float* second_moment = arrays.second_moment + first;
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto g = hn::Mul(hn::LoadU(d, gradient + i), hn::Set(d, f.gradient_scale));
    const auto m = hn::MulAdd(hn::Set(d, f.beta1), hn::LoadU(d, first_moment + i),
                              hn::Mul(hn::Set(d, f.one_minus_beta1), g));
    const auto v = hn::MulAdd(hn::Set(d, f.beta2), hn::LoadU(d, second_moment + i),
                              hn::Mul(hn::Set(d, f.one_minus_beta2), hn::Mul(g, g)));
    const auto p = hn::LoadU(d, parameter + i);
    const auto root = hn::Sqrt(hn::Mul(v, hn::Set(d, f.inverse_c2)));
    const auto step =
        hn::Div(hn::Mul(hn::Set(d, f.rate_over_c1), m), hn::Add(root, hn::Set(d, f.epsilon)));
    hn::StoreU(m, d, first_moment + i);
    hn::StoreU(v, d, second_moment + i);
    hn::StoreU(hn::Sub(hn::NegMulAdd(hn::Set(d, f.decay), p, p), step), d, parameter + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

AdamWFactors factors_of(const kernels::AdamW& arguments) {
  const double beta1 = arguments.beta1;
  const double beta2 = arguments.beta2;
  const double rate = arguments.learning_rate;
  const auto step = static_cast<double>(arguments.step);
  return {.gradient_scale = arguments.gradient_scale,
          .beta1 = arguments.beta1,
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .beta2 = arguments.beta2,
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .rate_over_c1 = static_cast<float>(rate / (1 - std::pow(beta1, step))),
          .inverse_c2 = static_cast<float>(1 / (1 - std::pow(beta2, step))),
          .epsilon = arguments.epsilon,
          .decay = static_cast<float>(rate * static_cast<double>(arguments.weight_decay))};
}

}  // namespace

HWY_EXPORT(adamw_block);

void host_adamw(const kernels::AdamW& arguments) {
  const AdamWFactors factors = factors_of(arguments);
  const AdamWArrays arrays{.parameter = arguments.parameter.host<float>(),
                           .gradient = arguments.gradient.host<float>(),
                           .first_moment = arguments.first_moment.host<float>(),
                           .second_moment = arguments.second_moment.host<float>()};
  parallel_blocks(arguments.parameter.elements(), kElementBlock,
                  [&](std::int64_t first, std::int64_t size) {
                    HWY_DYNAMIC_DISPATCH(adamw_block)(factors, arrays, first, size);
                  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
