// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/matmul.h"

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace quadrille::test {
namespace {

using Matmul = KernelTest;

constexpr double kTolerance = 3e-6;

struct Operands {
  std::unique_ptr<Tensor> a;
  std::unique_ptr<Tensor> b;
};

TEST_F(Matmul, MatchesFloat64AtOddShapesAndAllTranspositions) {
  // One, primes, a vector's multiples, tall, wide, deep.
  const std::vector<MatmulExtents> extents{{1, 1, 1},    {1, 17, 5},   {13, 1, 7},  {7, 11, 1},
                                           {31, 37, 41}, {64, 48, 32}, {200, 3, 5}, {3, 5, 300}};
  for (MatmulExtents e : extents) {
    for (const int transposed : {0, 1, 2, 3}) {
      e.transpose_a = (transposed & 1) != 0;
      e.transpose_b = (transposed & 2) != 0;
      const auto a = random(e.transpose_a ? Shape{e.k, e.m} : Shape{e.m, e.k});
      const auto b = random(e.transpose_b ? Shape{e.n, e.k} : Shape{e.k, e.n});
      const Numbers product = reference_matmul(a->numbers(), b->numbers(), e);
      const std::string what = a->view().shape().to_text() + " x " + b->view().shape().to_text();
      const auto c = random({e.m, e.n});
      Numbers sum = c->numbers();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += product[i];
      kernels::Matmul arguments{.a = *a,
                                .b = *b,
                                .c = *c,
                                .transpose_a = e.transpose_a,
                                .transpose_b = e.transpose_b,
                                .accumulate = true};
      kernels::matmul(*stream_, arguments);
      expect_close(c->numbers(), sum, kTolerance, what + " accumulated");

      arguments.accumulate = false;
      kernels::matmul(*stream_, arguments);
      expect_close(c->numbers(), product, kTolerance, what);

      const auto bias = random({e.n});
      arguments.bias = *bias;
      Numbers shifted = product;
      for (std::int64_t i = 0; i < e.m * e.n; ++i) at(shifted, i) += at(bias->numbers(), i % e.n);
      kernels::matmul(*stream_, arguments);
      expect_close(c->numbers(), shifted, kTolerance, what + " with bias");
    }
  }
}

TEST_F(Matmul, OfNoTermsIsTheBiasOrZero) {
  const auto c = random({3, 4});
  const auto bias = random({4});
  const auto a = empty({3, 0});
  const auto b = empty({0, 4});
  const auto before = c->get<float>();
  kernels::matmul(*stream_, {.a = *a, .b = *b, .c = *c, .accumulate = true});
  EXPECT_EQ(c->get<float>(), before);
  kernels::matmul(*stream_, {.a = *a, .b = *b, .c = *c, .bias = *bias});
  const auto row = bias->get<float>();
  const auto result = c->get<float>();
  for (std::size_t i = 0; i < result.size(); ++i) EXPECT_EQ(result[i], row[i % 4]);
  kernels::matmul(*stream_, {.a = *a, .b = *b, .c = *c});
  EXPECT_EQ(c->get<float>(), std::vector<float>(12, 0.0F));
}

TEST_F(Matmul, OfNoRowsTouchesNothing) {
  const auto a = empty({0, 5});
  const auto b = random({5, 4});
  const auto c = empty({0, 4});
  kernels::matmul(*stream_, {.a = *a, .b = *b, .c = *c});
  EXPECT_TRUE(c->get<float>().empty());
}

TEST_F(Matmul, RepeatsItsBits) {
  const auto a = random({129, 300});
  const auto b = random({300, 77});
  const auto product = [&] {
    const auto c = empty({129, 77});
    kernels::matmul(*stream_, {.a = *a, .b = *b, .c = *c});
    return c->get<float>();
  };
  const auto first = product();
  for (int repeat = 0; repeat < 3; ++repeat) EXPECT_TRUE(same_bits(first, product()));
}

TEST_F(Matmul, PassesNanOn) {
  const auto a = random({4, 40});
  auto values = a->get<float>();
  values[2 * 40 + 39] = std::nanf("");
  a->set(values);
  const auto b = random({40, 6});
  const auto c = empty({4, 6});
  kernels::matmul(*stream_, {.a = *a, .b = *b, .c = *c});
  const auto result = c->get<float>();
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(result[12 + i]));
  EXPECT_TRUE(std::isfinite(result[0]));
}

TEST_F(Matmul, RefusesShapesThatDoNotMatch) {
  const auto a = random({4, 5});
  const auto b = random({6, 3});
  const auto c = empty({4, 3});
  EXPECT_DEATH(kernels::matmul(*stream_, {.a = *a, .b = *b, .c = *c}),
               "b is F32 \\[6, 3\\], expected \\[5, 3\\]");
}

}  // namespace
}  // namespace quadrille::test
