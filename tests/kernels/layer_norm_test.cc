// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/layer_norm.h"

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace quadrille::test {
namespace {

using LayerNorm = KernelTest;

const std::vector<Shape> kShapes{{1, 1}, {1, 7}, {3, 16}, {17, 31}, {5, 64}, {33, 257}, {70, 768}};
constexpr double kEpsilon = 1e-5;

TEST_F(LayerNorm, MatchesFloat64AtOddShapes) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape.to_text());
    const auto x = random(shape, 3);
    const auto weight = random({shape[1]});
    const auto bias = random({shape[1]});
    for (const bool biased : {true, false}) {
      const Numbers expected = reference_layer_norm(x->numbers(), weight->numbers(),
                                                    biased ? bias->numbers() : Numbers{}, kEpsilon);
      for_each_instruction_set([&] {
        const auto y = empty(shape);
        const auto mean = empty({shape[0]});
        const auto rstd = empty({shape[0]});
        kernels::layer_norm_forward(*stream_, {.x = *x,
                                               .weight = *weight,
                                               .bias = biased ? bias->view() : TensorView(),
                                               .y = *y,
                                               .mean = *mean,
                                               .rstd = *rstd});
        expect_close(y->numbers(), expected, 2e-6, biased ? "with bias" : "without");
      });
    }
  }
}

TEST_F(LayerNorm, KeepsDigitsUnderALargeMean) {
  const auto x = random({4, 100});
  auto values = x->get<float>();
  for (float& value : values) value += 1000;
  x->set(values);
  const auto weight = random({100});
  const auto y = empty({4, 100});
  const auto mean = empty({4});
  const auto rstd = empty({4});
  kernels::layer_norm_forward(
      *stream_, {.x = *x, .weight = *weight, .bias = {}, .y = *y, .mean = *mean, .rstd = *rstd});
  // x holds 2^-14 of its value's digits after the point; the formula must not lose more.
  expect_close(y->numbers(), reference_layer_norm(x->numbers(), weight->numbers(), {}, kEpsilon),
               1e-4, "y");
}

TEST_F(LayerNorm, GradientsMatchFiniteDifferences) {
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 5}, Shape{19, 16}, Shape{3, 67}}) {
    SCOPED_TRACE(shape.to_text());
    const auto x = random(shape);
    const auto dy = random(shape);
    const auto weight = random({shape[1]});
    const Numbers zeros(static_cast<std::size_t>(shape[1]), 0.0);
    const Numbers dx = finite_difference(x->numbers(), dy->numbers(), [&](const Numbers& value) {
      return reference_layer_norm(value, weight->numbers(), {}, kEpsilon);
    });
    const Numbers dweight =
        finite_difference(weight->numbers(), dy->numbers(), [&](const Numbers& value) {
          return reference_layer_norm(x->numbers(), value, {}, kEpsilon);
        });
    const Numbers dbias = finite_difference(zeros, dy->numbers(), [&](const Numbers& value) {
      return reference_layer_norm(x->numbers(), weight->numbers(), value, kEpsilon);
    });
    for (const bool accumulate : {false, true}) {
      for_each_instruction_set([&] {
        const auto y = empty(shape);
        const auto mean = empty({shape[0]});
        const auto rstd = empty({shape[0]});
        kernels::layer_norm_forward(
            *stream_,
            {.x = *x, .weight = *weight, .bias = {}, .y = *y, .mean = *mean, .rstd = *rstd});
        const auto result = random(shape);
        const auto weight_gradient = random({shape[1]});
        const auto bias_gradient = random({shape[1]});
        Numbers expected_dx = dx;
        Numbers expected_dweight = dweight;
        Numbers expected_dbias = dbias;
        const auto plus = [](Numbers& sum, const Numbers& term) {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
        };
        if (accumulate) plus(expected_dx, result->numbers());
        plus(expected_dweight, weight_gradient->numbers());
        plus(expected_dbias, bias_gradient->numbers());
        kernels::layer_norm_backward(*stream_, {.dy = *dy,
                                                .x = *x,
                                                .weight = *weight,
                                                .mean = *mean,
                                                .rstd = *rstd,
                                                .dx = *result,
                                                .accumulate_dx = accumulate,
                                                .weight_gradient = *weight_gradient,
                                                .bias_gradient = *bias_gradient});
        // A row of one number has no gradient but the differences' own rounding.
        if (shape[1] > 1) expect_close(result->numbers(), expected_dx, 1e-5, "dx");
        expect_close(weight_gradient->numbers(), expected_dweight, 1e-5, "weight_gradient");
        expect_close(bias_gradient->numbers(), expected_dbias, 1e-5, "bias_gradient");
      });
    }
  }
}

TEST_F(LayerNorm, GivesTheSameBitsWithOneThreadAndTwo) {
  const Shape shape{531, 97};
  const auto x = random(shape);
  const auto dy = random(shape);
  const auto weight = random({shape[1]});
  const auto [one, two] = with_one_and_two_threads([&] {
    const auto y = empty(shape);
    const auto mean = empty({shape[0]});
    const auto rstd = empty({shape[0]});
    kernels::layer_norm_forward(
        *stream_, {.x = *x, .weight = *weight, .bias = {}, .y = *y, .mean = *mean, .rstd = *rstd});
    const auto weight_gradient = empty({shape[1]});
    kernels::layer_norm_backward(*stream_, {.dy = *dy,
                                            .x = *x,
                                            .weight = *weight,
                                            .mean = *mean,
                                            .rstd = *rstd,
                                            .dx = *y,
                                            .weight_gradient = *weight_gradient,
                                            .bias_gradient = {}});
    auto bits = y->get<float>();
    const auto sums = weight_gradient->get<float>();
    bits.insert(bits.end(), sums.begin(), sums.end());
    return bits;
  });
  EXPECT_TRUE(same_bits(one, two));
}

TEST_F(LayerNorm, TurnsARowWithNanToNan) {
  const auto x = random({2, 50});
  auto values = x->get<float>();
  values[13] = std::nanf("");
  x->set(values);
  const auto weight = random({50});
  for_each_instruction_set([&] {
    const auto y = empty({2, 50});
    const auto mean = empty({2});
    const auto rstd = empty({2});
    kernels::layer_norm_forward(
        *stream_, {.x = *x, .weight = *weight, .bias = {}, .y = *y, .mean = *mean, .rstd = *rstd});
    const auto result = y->get<float>();
    EXPECT_TRUE(std::isnan(result[49]));
    EXPECT_TRUE(std::isfinite(result[50]));
  });
}

}  // namespace
}  // namespace quadrille::test
