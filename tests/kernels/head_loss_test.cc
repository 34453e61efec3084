// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/head_loss.h"

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace quadrille::test {
namespace {

using HeadLoss = KernelTest;

struct Extents {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t vocab;
};

std::string text(const Extents& e) { return Shape{e.rows, e.width, e.vocab}.to_text(); }

/// Wide enough for chunks of the least size, of which these rows take two, cut unevenly.
constexpr std::int64_t kWideVocab = 5000;
constexpr std::int64_t kManyRows = 259;

TEST_F(HeadLoss, MatchesFloat64AcrossChunks) {
  for (const Extents& e : {Extents{1, 1, 2}, Extents{5, 3, 7}, Extents{33, 16, 65},
                           Extents{kManyRows, 3, kWideVocab}}) {
    SCOPED_TRACE(text(e));
    const auto x = random({e.rows, e.width});
    const auto weight = random({e.vocab, e.width});
    const auto targets = random_ids({e.rows}, -1, static_cast<std::int32_t>(e.vocab - 1));
    const double expected =
        reference_head_loss(x->numbers(), weight->numbers(), targets->get<std::int32_t>());
    const auto loss = empty({1}, DType::kF64);
    const std::int64_t chunk = kernels::head_loss_chunk(e.rows, e.vocab);
    const auto workspace = empty({chunk, e.vocab});
    for_each_instruction_set([&] {
      loss->set(std::vector<double>{3});
      kernels::head_loss(*stream_, {.x = *x,
                                    .weight = *weight,
                                    .targets = *targets,
                                    .loss_sum = *loss,
                                    .workspace = *workspace,
                                    .dx = {},
                                    .weight_gradient = {}});
      EXPECT_NEAR(loss->get<double>()[0], 3 + expected, 2e-6 * (3 + expected));
    });
  }
}

TEST_F(HeadLoss, GradientsMatchFiniteDifferences) {
  for (const Extents& e : {Extents{1, 1, 2}, Extents{6, 5, 13}, Extents{21, 3, 33}}) {
    SCOPED_TRACE(text(e));
    const auto x = random({e.rows, e.width});
    const auto weight = random({e.vocab, e.width});
    const auto targets = random_ids({e.rows}, -1, static_cast<std::int32_t>(e.vocab - 1));
    const auto ids = targets->get<std::int32_t>();
    const Numbers dx = finite_difference(x->numbers(), {1}, [&](const Numbers& value) {
      return Numbers{reference_head_loss(value, weight->numbers(), ids)};
    });
    const Numbers dweight = finite_difference(weight->numbers(), {1}, [&](const Numbers& value) {
      return Numbers{reference_head_loss(x->numbers(), value, ids)};
    });
    for_each_instruction_set([&] {
      const auto loss = empty({1}, DType::kF64);
      const auto workspace = empty({kernels::head_loss_chunk(e.rows, e.vocab), e.vocab});
      const auto result = random({e.rows, e.width});
      const auto gradient = random({e.vocab, e.width});
      Numbers expected = gradient->numbers();
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += dweight[i];
      kernels::head_loss(*stream_, {.x = *x,
                                    .weight = *weight,
                                    .targets = *targets,
                                    .loss_sum = *loss,
                                    .workspace = *workspace,
                                    .dx = *result,
                                    .weight_gradient = *gradient});
      // Rounding in float32 acts on softmax, whose values are at most 1, not on its difference to
      // the target: an all but certain row has a gradient of rounding alone.
      const Numbers actual = result->numbers();
      for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(actual[i], dx[i], 5e-6);
      expect_close(gradient->numbers(), expected, 1e-5, "weight_gradient");
    });
  }
}

TEST_F(HeadLoss, GradientOfAWideVocabularyAddsUpOverChunks) {
  const Extents e{kManyRows, 2, kWideVocab};
  const auto x = random({e.rows, e.width});
  const auto weight = random({e.vocab, e.width});
  const auto targets = random_ids({e.rows}, 0, static_cast<std::int32_t>(e.vocab - 1));
  ASSERT_LT(kernels::head_loss_chunk(e.rows, e.vocab), e.rows);
  const auto loss = empty({1}, DType::kF64);
  const auto workspace = empty({kernels::head_loss_chunk(e.rows, e.vocab), e.vocab});
  const auto result = empty({e.rows, e.width});
  const auto gradient = empty({e.vocab, e.width});
  kernels::head_loss(*stream_, {.x = *x,
                                .weight = *weight,
                                .targets = *targets,
                                .loss_sum = *loss,
                                .workspace = *workspace,
                                .dx = *result,
                                .weight_gradient = *gradient});
  // Along the gradient itself the derivative is its squared length.
  const Numbers dx = result->numbers();
  const auto loss_at = [&](double step) {
    Numbers moved = x->numbers();
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * dx[i];
    return reference_head_loss(moved, weight->numbers(), targets->get<std::int32_t>());
  };
  double squared_length = 0;
  for (const double value : dx) squared_length += value * value;
  EXPECT_NEAR((loss_at(1e-5) - loss_at(-1e-5)) / 2e-5 / squared_length, 1, 1e-5);
  // Each row's gradients of the logits add up to 0, so those of the weights do.
  const Numbers sums = gradient->numbers();
  double total = 0;
  double size = 0;
  for (const double value : sums) {
    total += value;
    size += std::abs(value);
  }
  EXPECT_LE(std::abs(total), 1e-5 * size);
}

TEST_F(HeadLoss, OverwritesTheWeightGradientWithTheBitsThatItAddsToZeros) {
  for (const Extents& e : {Extents{5, 3, 7}, Extents{kManyRows, 2, kWideVocab}}) {
    SCOPED_TRACE(text(e));
    const auto x = random({e.rows, e.width});
    const auto weight = random({e.vocab, e.width});
    const auto targets = random_ids({e.rows}, -1, static_cast<std::int32_t>(e.vocab - 1));
    const auto workspace = empty({kernels::head_loss_chunk(e.rows, e.vocab), e.vocab});
    const auto run = [&](const Tensor& gradient, bool accumulate) {
      kernels::head_loss(*stream_, {.x = *x,
                                    .weight = *weight,
                                    .targets = *targets,
                                    .loss_sum = *empty({1}, DType::kF64),
                                    .workspace = *workspace,
                                    .dx = *empty({e.rows, e.width}),
                                    .weight_gradient = gradient,
                                    .accumulate = accumulate});
      return gradient.get<float>();
    };
    const auto stale = empty({e.vocab, e.width});
    stale->set(std::vector<float>(static_cast<std::size_t>(e.vocab * e.width), std::nanf("")));
    EXPECT_EQ(run(*stale, false), run(*empty({e.vocab, e.width}), true));
  }
}

TEST_F(HeadLoss, OfIgnoredRowsIsZeroAndLeavesNoGradient) {
  const auto x = random({3, 4});
  const auto weight = random({5, 4});
  const auto targets = random_ids({3}, -1, -1);
  const auto loss = empty({1}, DType::kF64);
  const auto workspace = empty({kernels::head_loss_chunk(3, 5), 5});
  const auto dx = random({3, 4});
  const auto gradient = empty({5, 4});
  kernels::head_loss(*stream_, {.x = *x,
                                .weight = *weight,
                                .targets = *targets,
                                .loss_sum = *loss,
                                .workspace = *workspace,
                                .dx = *dx,
                                .weight_gradient = *gradient});
  EXPECT_EQ(loss->get<double>()[0], 0);
  EXPECT_EQ(dx->get<float>(), std::vector<float>(12, 0.0F));
  EXPECT_EQ(gradient->get<float>(), std::vector<float>(20, 0.0F));
}

TEST_F(HeadLoss, OfNanIsNan) {
  const auto x = random({2, 4});
  auto values = x->get<float>();
  values[5] = std::nanf("");
  x->set(values);
  const auto weight = random({50, 4});
  const auto targets = random_ids({2}, 0, 49);
  const auto workspace = empty({2, 50});
  for_each_instruction_set([&] {
    const auto loss = empty({1}, DType::kF64);
    kernels::head_loss(*stream_, {.x = *x,
                                  .weight = *weight,
                                  .targets = *targets,
                                  .loss_sum = *loss,
                                  .workspace = *workspace,
                                  .dx = {},
                                  .weight_gradient = {}});
    EXPECT_TRUE(std::isnan(loss->get<double>()[0]));
  });
}

TEST_F(HeadLoss, RefusesATargetOutsideTheVocabulary) {
  const auto x = random({1, 4});
  const auto weight = random({5, 4});
  const auto targets = random_ids({1}, 5, 5);
  const auto loss = empty({1}, DType::kF64);
  const auto workspace = empty({1, 5});
  EXPECT_DEATH(kernels::head_loss(*stream_, {.x = *x,
                                             .weight = *weight,
                                             .targets = *targets,
                                             .loss_sum = *loss,
                                             .workspace = *workspace,
                                             .dx = {},
                                             .weight_gradient = {}}),
               "target 5 of a vocabulary of 5");
}

}  // namespace
}  // namespace quadrille::test
