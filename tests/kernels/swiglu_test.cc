// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/swiglu.h"

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace quadrille::test {
namespace {

using Swiglu = KernelTest;

TEST_F(Swiglu, MatchesFloat64AtOddSizes) {
  for (const std::int64_t count : {1, 7, 64, 193, 20'000}) {
    const auto gate = random({count}, 4);
    const auto up = random({count});
    const Numbers expected = reference_swiglu(gate->numbers(), up->numbers());
    for_each_instruction_set([&] {
      const auto y = empty({count});
      kernels::swiglu_forward(*stream_, *gate, *up, *y);
      expect_close(y->numbers(), expected, 1e-6, "y");
    });
  }
}

TEST_F(Swiglu, GradientsMatchFiniteDifferencesAlsoInPlace) {
  const Shape shape{5, 13};
  const auto gate = random(shape, 2);
  const auto up = random(shape);
  const auto dy = random(shape);
  const Numbers expected_dgate = finite_difference(
      gate->numbers(), dy->numbers(),
      [&](const Numbers& value) { return reference_swiglu(value, up->numbers()); });
  const Numbers expected_dup = finite_difference(
      up->numbers(), dy->numbers(),
      [&](const Numbers& value) { return reference_swiglu(gate->numbers(), value); });
  for_each_instruction_set([&] {
    const auto dgate = empty(shape);
    dgate->set(dy->get<float>());
    const auto dup = random(shape);
    kernels::swiglu_backward(
        *stream_, {.gate = *gate, .up = *up, .dy = *dgate, .dgate = *dgate, .dup = *dup});
    expect_close(dgate->numbers(), expected_dgate, 2e-6, "dgate");
    expect_close(dup->numbers(), expected_dup, 2e-6, "dup");
  });
}

TEST_F(Swiglu, StaysFiniteForLargeGatesAndPassesNanOn) {
  const auto gate = empty({4});
  gate->set(std::vector<float>{-1e4F, 1e4F, -200, std::nanf("")});
  const auto up = empty({4});
  up->set(std::vector<float>{2, 2, 2, 2});
  for_each_instruction_set([&] {
    const auto y = empty({4});
    const auto dgate = empty({4});
    const auto dup = empty({4});
    kernels::swiglu_forward(*stream_, *gate, *up, *y);
    kernels::swiglu_backward(*stream_,
                             {.gate = *gate, .up = *up, .dy = *up, .dgate = *dgate, .dup = *dup});
    const auto values = y->get<float>();
    const auto slopes = dgate->get<float>();
    EXPECT_NEAR(values[0], 0, 1e-20);
    EXPECT_EQ(values[1], 2e4F);
    EXPECT_NEAR(slopes[0], 0, 1e-20);
    EXPECT_EQ(slopes[1], 4.0F);  // dy * up * 1
    EXPECT_NEAR(slopes[2], 0, 1e-20);
    EXPECT_TRUE(std::isnan(values[3]));
    EXPECT_TRUE(std::isnan(slopes[3]));
    EXPECT_TRUE(std::isnan(dup->get<float>()[3]));
  });
}

}  // namespace
}  // namespace quadrille::test
