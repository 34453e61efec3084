// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Products of operands rounded to bf16, by whatever this host has for them and by the fp32 product
// that stands in on hosts without, against float64 of the rounded operands.

#include "quadrille/kernels/rounding.h"

#include <algorithm>
#include <limits>
#include <set>

#include "kernels/bfloat16.h"
#include "kernels/fixture.h"
#include "kernels/reference.h"
#include "quadrille/kernels/head_loss.h"
#include "quadrille/kernels/matmul.h"
#include "quadrille/kernels/projection.h"

namespace quadrille::test {
namespace {

using kernels::ProductPrecision;

/// Of fp32 sums.
constexpr double kTolerance = 3e-6;

class Rounding : public KernelTest {
 protected:
  /// Both ways where this host has two.
  static std::set<ProductPrecision> ways() {
    return {kernels::bf16_products(), ProductPrecision::kRoundedFp32};
  }

  kernels::Rounding rounding(ProductPrecision precision, std::int64_t elements) {
    scratch_ = empty({elements});
    scratch_->set(std::vector<float>(static_cast<std::size_t>(elements), std::nanf("")));
    return {precision, *scratch_};
  }
  kernels::Rounding rounding(ProductPrecision precision, const Tensor& a, const Tensor& b) {
    return rounding(precision, kernels::rounding_elements(a.view().elements()) +
                                   kernels::rounding_elements(b.view().elements()));
  }
  static Numbers rounded(const Tensor& tensor) {
    Numbers numbers;
    for (const float value : tensor.get<float>()) numbers.push_back(nearest_bf16(value));
    return numbers;
  }

 private:
  std::unique_ptr<Tensor> scratch_;
};

TEST_F(Rounding, TakesTheNearestAndOfTwoTheEvenAndKeepsNan) {
  // Times one, a product is its rounded factor.
  const float above_one = 1 + 0x1p-7F;
  std::vector<float> values{0.0F,
                            -0.0F,
                            1.0F,
                            1 + 0x1p-8F,          // a tie: down to 1, which is even
                            above_one + 0x1p-8F,  // a tie: up
                            -above_one - 0x1p-8F,
                            std::nextafter(1 + 0x1p-8F, 2.0F),
                            std::nextafter(above_one + 0x1p-8F, 0.0F),
                            std::numeric_limits<float>::max(),  // nearer to 2^128: infinite
                            0x1.fep127F,
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::nanf(""),
                            std::bit_cast<float>(0x7F800001U),  // NaN in the bits that go
                            std::bit_cast<float>(0xFFFFFFFFU)};
  std::uniform_int_distribution<std::uint32_t> bits;
  while (values.size() < 20011) {
    const auto value = std::bit_cast<float>(bits(generator_));
    if (std::isnormal(value)) values.push_back(value);
  }
  const auto count = static_cast<std::int64_t>(values.size());
  const auto a = empty({count, 1});
  a->set(values);
  const auto one = empty({1, 1});
  one->set(std::vector<float>{1.0F});
  for_each_instruction_set([&] {
    for (const ProductPrecision way : ways()) {
      const auto c = empty({count, 1});
      kernels::matmul(
          *stream_, {.a = *a, .b = *one, .c = *c, .bias = {}, .rounding = rounding(way, *a, *one)});
      const auto result = c->get<float>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i])) {
          EXPECT_TRUE(std::isnan(result[i])) << i;
        } else {
          EXPECT_EQ(result[i], nearest_bf16(values[i])) << values[i];
        }
      }
    }
  });
}

TEST_F(Rounding, ProductsMatchFloat64OfTheRoundedOperandsAtOddShapes) {
  const std::vector<MatmulExtents> extents{{1, 1, 1},    {1, 17, 5},   {13, 1, 7},  {7, 11, 1},
                                           {31, 37, 41}, {64, 48, 32}, {200, 3, 5}, {3, 5, 300}};
  for (MatmulExtents e : extents) {
    for (const int transposed : {0, 1, 2, 3}) {
      e.transpose_a = (transposed & 1) != 0;
      e.transpose_b = (transposed & 2) != 0;
      const auto a = random(e.transpose_a ? Shape{e.k, e.m} : Shape{e.m, e.k});
      const auto b = random(e.transpose_b ? Shape{e.n, e.k} : Shape{e.k, e.n});
      const Numbers product = reference_matmul(rounded(*a), rounded(*b), e);
      const std::string what = a->view().shape().to_text() + " x " + b->view().shape().to_text();
      for (const ProductPrecision way : ways()) {
        const auto c = random({e.m, e.n});
        Numbers sum = c->numbers();  // fp32 of any digits: sums are not rounded
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += product[i];
        kernels::Matmul arguments{.a = *a,
                                  .b = *b,
                                  .c = *c,
                                  .transpose_a = e.transpose_a,
                                  .transpose_b = e.transpose_b,
                                  .bias = {},
                                  .accumulate = true,
                                  .rounding = rounding(way, *a, *b)};
        kernels::matmul(*stream_, arguments);
        expect_close(c->numbers(), sum, kTolerance, what + " accumulated");

        const auto bias = random({e.n});
        arguments.accumulate = false;
        arguments.bias = *bias;
        Numbers shifted = product;
        for (std::int64_t i = 0; i < e.m * e.n; ++i) at(shifted, i) += at(bias->numbers(), i % e.n);
        kernels::matmul(*stream_, arguments);
        expect_close(c->numbers(), shifted, kTolerance, what + " with bias");
      }
    }
  }
}

TEST_F(Rounding, SumsOfManyTermsLoseNoMoreThanFp32Does) {
  // 4,096 ones in bf16 sums would stop at 256, whose neighbours are 2 apart.
  const auto a = empty({2, 4096});
  a->set(std::vector<float>(2 * 4096, 1.0F));
  const auto c = empty({2, 2});
  for (const ProductPrecision way : ways()) {
    kernels::matmul(*stream_, {.a = *a,
                               .b = *a,
                               .c = *c,
                               .transpose_b = true,
                               .bias = {},
                               .rounding = rounding(way, *a, *a)});
    EXPECT_EQ(c->get<float>(), std::vector<float>(4, 4096.0F));
  }
}

TEST_F(Rounding, LeavesTheOperandsAsTheyWere) {
  const auto a = random({5, 7});
  const auto b = random({7, 3});
  const auto before = a->get<float>();
  const auto c = empty({5, 3});
  for (const ProductPrecision way : ways()) {
    kernels::matmul(*stream_,
                    {.a = *a, .b = *b, .c = *c, .bias = {}, .rounding = rounding(way, *a, *b)});
  }
  EXPECT_TRUE(same_bits(a->get<float>(), before));
}

/// A matrix that was rounded before is read in the place of B: `other` stands where B was, so that
/// using it shows.
TEST_F(Rounding, AMatrixRoundedBeforeGivesTheBitsOfOneThatTheProductRounds) {
  const auto a = random({5, 37});
  for (const bool transposed : {false, true}) {
    const Shape shape = transposed ? Shape{19, 37} : Shape{37, 19};
    const auto b = random(shape);
    const auto other = random(shape);
    const auto halves = empty({shape[0], 2 * shape[1]}, DType::kU8);
    for (const ProductPrecision way : ways()) {
      for_each_instruction_set([&] {
        kernels::to_bf16(*stream_, *b, *halves);
        const auto product = [&](const Tensor& factor, const TensorView& rounded_b) {
          const auto c = empty({5, 19});
          kernels::matmul(*stream_, {.a = *a,
                                     .b = factor,
                                     .c = *c,
                                     .transpose_b = transposed,
                                     .bias = {},
                                     .rounding = rounding(way, *a, factor),
                                     .rounded_b = rounded_b});
          return c->get<float>();
        };
        EXPECT_TRUE(same_bits(product(*other, *halves), product(*b, {})));
      });
    }
  }
}

TEST_F(Rounding, AHeadRoundedBeforeGivesTheBitsOfOneThatTheLossRounds) {
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kWidth = 11;
  constexpr std::int64_t kVocab = 70;
  const auto x = random({kRows, kWidth});
  const auto weight = random({kVocab, kWidth});
  const auto other = random({kVocab, kWidth});
  const auto targets = random_ids({kRows}, 0, kVocab - 1);
  const auto halves = empty({kVocab, 2 * kWidth}, DType::kU8);
  kernels::to_bf16(*stream_, *weight, *halves);
  for (const ProductPrecision way : ways()) {
    const auto gradients = [&](const Tensor& factor, const TensorView& rounded_weight) {
      const auto dx = empty({kRows, kWidth});
      const auto gradient = empty({kVocab, kWidth});
      kernels::head_loss(
          *stream_, {.x = *x,
                     .weight = factor,
                     .targets = *targets,
                     .loss_sum = *empty({1}, DType::kF64),
                     .workspace = *empty({kernels::head_loss_chunk(kRows, kVocab), kVocab}),
                     .dx = *dx,
                     .weight_gradient = *gradient,
                     .rounding = rounding(way, kernels::head_loss_rounding(kRows, kVocab, kWidth)),
                     .rounded_weight = rounded_weight});
      std::vector<float> both = dx->get<float>();
      const std::vector<float> rest = gradient->get<float>();
      both.insert(both.end(), rest.begin(), rest.end());
      return both;
    };
    EXPECT_TRUE(same_bits(gradients(*other, *halves), gradients(*weight, {})));
  }
}

TEST_F(Rounding, RefusesScratchThatIsTooShort) {
  const auto a = random({4, 5});
  const auto b = random({5, 3});
  const auto c = empty({4, 3});
  const kernels::Rounding short_of_one = rounding(ProductPrecision::kRoundedFp32, 32 + 16 - 1);
  EXPECT_DEATH(
      kernels::matmul(*stream_, {.a = *a, .b = *b, .c = *c, .bias = {}, .rounding = short_of_one}),
      "rounding needs scratch of 48 elements, it has 47");
}

/// The head's products across chunks of a wide vocabulary and of a small one.
TEST_F(Rounding, HeadLossIsThatOfTheRoundedOperands) {
  struct Extents {
    std::int64_t rows;
    std::int64_t width;
    std::int64_t vocab;
  };
  for (const Extents& e : {Extents{1, 1, 2}, Extents{33, 16, 65}, Extents{19, 3, 70000}}) {
    const auto x = random({e.rows, e.width});
    const auto weight = random({e.vocab, e.width});
    const auto targets = random_ids({e.rows}, -1, static_cast<std::int32_t>(e.vocab - 1));
    const double expected =
        reference_head_loss(rounded(*x), rounded(*weight), targets->get<std::int32_t>());
    const auto workspace = empty({kernels::head_loss_chunk(e.rows, e.vocab), e.vocab});
    for (const ProductPrecision way : ways()) {
      const auto loss = empty({1}, DType::kF64);
      kernels::head_loss(
          *stream_,
          {.x = *x,
           .weight = *weight,
           .targets = *targets,
           .loss_sum = *loss,
           .workspace = *workspace,
           .dx = {},
           .weight_gradient = {},
           .rounding = rounding(way, kernels::head_loss_rounding(e.rows, e.vocab, e.width))});
      EXPECT_NEAR(loss->get<double>()[0], expected, 2e-6 * (1 + expected));
    }
  }
}

/// Gradients of the logits are rounded before they are factors. Each moves by at most 2^-8 of
/// itself, so a gradient is off by at most that part of the sum of its terms' sizes.
TEST_F(Rounding, HeadGradientsAreOffByTheRoundingOfTheLogitsGradientAtMost) {
  constexpr std::int64_t kRows = 21;
  constexpr std::int64_t kWidth = 5;
  constexpr std::int64_t kVocab = 33;
  const auto x = random({kRows, kWidth});
  const auto weight = random({kVocab, kWidth});
  const auto targets = random_ids({kRows}, 0, kVocab - 1);
  const auto ids = targets->get<std::int32_t>();
  const Numbers x_numbers = rounded(*x);
  const Numbers w_numbers = rounded(*weight);
  Numbers dlogits = reference_matmul(x_numbers, w_numbers,
                                     {.m = kRows, .n = kVocab, .k = kWidth, .transpose_b = true});
  for (std::int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (std::int64_t v = 0; v < kVocab; ++v) sum += std::exp(at(dlogits, row * kVocab + v));
    for (std::int64_t v = 0; v < kVocab; ++v) {
      double& value = at(dlogits, row * kVocab + v);
      value = std::exp(value) / sum - (ids[static_cast<std::size_t>(row)] == v ? 1 : 0);
    }
  }
  const auto magnitudes = [](Numbers numbers) {
    for (double& number : numbers) number = std::abs(number);
    return numbers;
  };
  const MatmulExtents to_dx{.m = kRows, .n = kWidth, .k = kVocab};
  const MatmulExtents to_dw{.m = kVocab, .n = kWidth, .k = kRows, .transpose_a = true};
  const Numbers dx = reference_matmul(dlogits, w_numbers, to_dx);
  const Numbers dw = reference_matmul(dlogits, x_numbers, to_dw);
  const Numbers dx_terms = reference_matmul(magnitudes(dlogits), magnitudes(w_numbers), to_dx);
  const Numbers dw_terms = reference_matmul(magnitudes(dlogits), magnitudes(x_numbers), to_dw);
  for (const ProductPrecision way : ways()) {
    const auto loss = empty({1}, DType::kF64);
    const auto workspace = empty({kernels::head_loss_chunk(kRows, kVocab), kVocab});
    const auto result = empty({kRows, kWidth});
    const auto gradient = empty({kVocab, kWidth});
    kernels::head_loss(
        *stream_, {.x = *x,
                   .weight = *weight,
                   .targets = *targets,
                   .loss_sum = *loss,
                   .workspace = *workspace,
                   .dx = *result,
                   .weight_gradient = *gradient,
                   .rounding = rounding(way, kernels::head_loss_rounding(kRows, kVocab, kWidth))});
    const Numbers actual_dx = result->numbers();
    for (std::size_t i = 0; i < dx.size(); ++i) {
      EXPECT_NEAR(actual_dx[i], dx[i], kBf16Rounding * dx_terms[i] + 5e-6);
    }
    const Numbers actual_dw = gradient->numbers();
    for (std::size_t i = 0; i < dw.size(); ++i) {
      EXPECT_NEAR(actual_dw[i], dw[i], kBf16Rounding * dw_terms[i] + 5e-6);
    }
  }
}

}  // namespace
}  // namespace quadrille::test
