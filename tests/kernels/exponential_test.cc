// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The exponential that softmax and GELU are made of, against float64, under every instruction set.

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exponential_test.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

void exponential_of_all(const std::vector<float>& x, std::vector<float>& y) {
  const float* source = x.data();
  float* target = y.data();
  for_lanes(static_cast<std::int64_t>(x.size()), [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(exponential(d, hn::LoadU(d, source + i)), d, target + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/fixture.h"

namespace quadrille::internal {

HWY_EXPORT(exponential_of_all);

namespace {

std::vector<float> exponential_of(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(exponential_of_all)(x, y);
  return y;
}

using Exponential = test::KernelTest;

TEST_F(Exponential, IsWithinTwoUnitsInTheLastPlace) {
  std::uniform_real_distribution<float> uniform(-87.3F, 88.0F);
  std::vector<float> x{0, -0.0F, 1, -1, 1e-30F, -1e-8F, -87.29F, 87.99F};
  while (x.size() < 20011) x.push_back(uniform(generator_));
  while (x.size() < 30011) x.push_back(uniform(generator_) / 100);
  test::for_each_instruction_set([&] {
    const auto y = exponential_of(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      // An ulp of a float is at most 2^-23 of it.
      EXPECT_NEAR(static_cast<double>(y[i]) / expected, 1, 2 * 0x1p-23) << x[i];
    }
  });
}

TEST_F(Exponential, VanishesFarBelowAndKeepsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  // A NaN that carries bits of its own must survive as well.
  const float payload = std::nanf("0x12345");
  test::for_each_instruction_set([&] {
    const auto y = exponential_of(
        {-infinity, -1e30F, -200, -88, std::nanf(""), payload, -payload, infinity, 1e30F, 100});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(y[i], 0);
    for (std::size_t i = 4; i < 7; ++i) EXPECT_TRUE(std::isnan(y[i]));
    for (std::size_t i = 7; i < 10; ++i) EXPECT_GE(y[i], 1.6e38F);
  });
}

}  // namespace
}  // namespace quadrille::internal
#endif  // HWY_ONCE
