// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/rms_norm.h"

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace quadrille::test {
namespace {

using RmsNorm = KernelTest;

constexpr double kEpsilon = 1e-5;

TEST_F(RmsNorm, MatchesFloat64AtOddShapes) {
  for (const Shape& shape : {Shape{1, 1}, Shape{1, 7}, Shape{3, 16}, Shape{17, 31}, Shape{5, 64},
                             Shape{33, 257}, Shape{70, 768}}) {
    SCOPED_TRACE(shape.to_text());
    const auto x = random(shape, 3);
    const auto weight = random({shape[1]});
    const Numbers expected = reference_rms_norm(x->numbers(), weight->numbers(), kEpsilon);
    for_each_instruction_set([&] {
      const auto y = empty(shape);
      const auto rstd = empty({shape[0]});
      kernels::rms_norm_forward(*stream_, {.x = *x, .weight = *weight, .y = *y, .rstd = *rstd});
      expect_close(y->numbers(), expected, 2e-6, "y");
    });
  }
}

TEST_F(RmsNorm, TakesEpsilonAsTheFloorOfARowOfZeros) {
  const auto x = empty({2, 9});
  x->set(std::vector<float>(18, 0.0F));
  const auto weight = random({9});
  const auto y = empty({2, 9});
  const auto rstd = empty({2});
  kernels::rms_norm_forward(*stream_,
                            {.x = *x, .weight = *weight, .epsilon = 0.25F, .y = *y, .rstd = *rstd});
  EXPECT_EQ(y->get<float>(), std::vector<float>(18, 0.0F));
  EXPECT_EQ(rstd->get<float>(), std::vector<float>(2, 2.0F));  // 1 / sqrt(1/4)
}

TEST_F(RmsNorm, GradientsMatchFiniteDifferences) {
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 5}, Shape{19, 16}, Shape{3, 67}}) {
    SCOPED_TRACE(shape.to_text());
    const auto x = random(shape);
    const auto dy = random(shape);
    const auto weight = random({shape[1]});
    const Numbers dx = finite_difference(x->numbers(), dy->numbers(), [&](const Numbers& value) {
      return reference_rms_norm(value, weight->numbers(), kEpsilon);
    });
    const Numbers dweight = finite_difference(
        weight->numbers(), dy->numbers(),
        [&](const Numbers& value) { return reference_rms_norm(x->numbers(), value, kEpsilon); });
    for (const bool accumulate : {false, true}) {
      for_each_instruction_set([&] {
        const auto y = empty(shape);
        const auto rstd = empty({shape[0]});
        kernels::rms_norm_forward(*stream_, {.x = *x, .weight = *weight, .y = *y, .rstd = *rstd});
        const auto result = random(shape);
        const auto weight_gradient = random({shape[1]});
        Numbers expected_dx = dx;
        Numbers expected_dweight = dweight;
        const auto plus = [](Numbers& sum, const Numbers& term) {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
        };
        if (accumulate) plus(expected_dx, result->numbers());
        plus(expected_dweight, weight_gradient->numbers());
        kernels::rms_norm_backward(*stream_, {.dy = *dy,
                                              .x = *x,
                                              .weight = *weight,
                                              .rstd = *rstd,
                                              .dx = *result,
                                              .accumulate_dx = accumulate,
                                              .weight_gradient = *weight_gradient});
        // A row of one number has no gradient but the differences' own rounding.
        if (shape[1] > 1) expect_close(result->numbers(), expected_dx, 1e-5, "dx");
        expect_close(weight_gradient->numbers(), expected_dweight, 1e-5, "weight_gradient");
      });
    }
  }
}

TEST_F(RmsNorm, GivesTheSameBitsWithOneThreadAndTwo) {
  const Shape shape{150, 40};
  const auto x = random(shape);
  const auto dy = random(shape);
  const auto weight = random({40});
  const auto before = random({40});
  const auto [one, two] = with_one_and_two_threads([&] {
    const auto y = empty(shape);
    const auto dx = empty(shape);
    const auto rstd = empty({150});
    const auto gradient = empty({40});
    gradient->set(before->get<float>());
    kernels::rms_norm_forward(*stream_, {.x = *x, .weight = *weight, .y = *y, .rstd = *rstd});
    kernels::rms_norm_backward(*stream_, {.dy = *dy,
                                          .x = *x,
                                          .weight = *weight,
                                          .rstd = *rstd,
                                          .dx = *dx,
                                          .weight_gradient = *gradient});
    auto bits = dx->get<float>();
    const auto sums = gradient->get<float>();
    bits.insert(bits.end(), sums.begin(), sums.end());
    return bits;
  });
  EXPECT_TRUE(same_bits(one, two));
}

}  // namespace
}  // namespace quadrille::test
