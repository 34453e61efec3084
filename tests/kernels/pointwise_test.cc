// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/pointwise.h"

#include <numbers>

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace quadrille::test {
namespace {

using Pointwise = KernelTest;

// One, primes, vectors' multiples, more than one block of 8192.
const std::vector<std::int64_t> kCounts{1, 7, 16, 61, 8192, 8192 * 2 + 17};

TEST_F(Pointwise, FillsCopiesAddsAndScalesEveryElement) {
  for (const std::int64_t count : kCounts) {
    SCOPED_TRACE(count);
    const auto a = random({count});
    const auto b = random({count});
    const auto x = a->get<float>();
    const auto y = b->get<float>();
    for_each_instruction_set([&] {
      const auto target = empty({count});
      kernels::fill(*stream_, *target, 2.5F);
      EXPECT_EQ(target->get<float>(), std::vector<float>(x.size(), 2.5F));
      kernels::copy(*stream_, *a, *target);
      EXPECT_EQ(target->get<float>(), x);
      kernels::add(*stream_, *b, *target);
      kernels::scale(*stream_, *target, 3);
      std::vector<float> expected(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) expected[i] = (x[i] + y[i]) * 3;
      EXPECT_EQ(target->get<float>(), expected);
    });
  }
}

TEST_F(Pointwise, CopiesIdsAndRowsOfALargerTensor) {
  const auto ids = random_ids({5, 3}, -9, 9);
  const auto target = empty({2, 3}, DType::kI32);
  kernels::copy(*stream_, ids->view().rows(2, 2), *target);
  const auto all = ids->get<std::int32_t>();
  EXPECT_EQ(target->get<std::int32_t>(),
            std::vector<std::int32_t>(all.begin() + 6, all.begin() + 12));
}

/// Values where GELU is steep, flat, tiny and saturated.
std::vector<float> gelu_inputs(std::mt19937_64& generator, std::size_t count) {
  std::vector<float> values{0, -0.0F, 1e-30F, -1e-30F, 5, -5, 9, -9, 30, -30, 1e4F, -1e4F};
  std::normal_distribution<float> normal(0, 3);
  while (values.size() < count) values.push_back(normal(generator));
  values.resize(count);
  return values;
}

TEST_F(Pointwise, GeluMatchesFloat64) {
  for (const std::int64_t count : kCounts) {
    const auto x = empty({count});
    x->set(gelu_inputs(generator_, static_cast<std::size_t>(count)));
    const Numbers inputs = x->numbers();
    const Numbers expected = reference_gelu(inputs);
    for_each_instruction_set([&] {
      const auto y = empty({count});
      kernels::gelu_forward(*stream_, *x, *y);
      const Numbers actual = y->numbers();
      for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], 4e-7 * std::abs(inputs[i]) + 1e-30) << inputs[i];
      }
    });
  }
}

TEST_F(Pointwise, GeluGradientMatchesFiniteDifferences) {
  for (const std::int64_t count : {1, 13, 200}) {
    const auto x = empty({count});
    x->set(gelu_inputs(generator_, static_cast<std::size_t>(count)));
    const auto dy = random({count});
    const Numbers inputs = x->numbers();
    const Numbers factors = dy->numbers();
    for_each_instruction_set([&] {
      const auto dx = random({count});
      kernels::copy(*stream_, *dy, *dx);
      kernels::gelu_backward(*stream_, *x, *dx, *dx);  // in place
      const Numbers actual = dx->numbers();
      for (std::size_t i = 0; i < actual.size(); ++i) {
        // Each element has its own difference: the function acts on one at a time.
        const double step = 1e-5 * std::max(1.0, std::abs(inputs[i]));
        const Numbers both = reference_gelu({inputs[i] + step, inputs[i] - step});
        const double expected = factors[i] * (both[0] - both[1]) / (2 * step);
        EXPECT_NEAR(actual[i], expected, 1e-6 * std::abs(factors[i]) + 1e-9) << inputs[i];
      }
    });
  }
}

TEST_F(Pointwise, GeluPassesNanOn) {
  for_each_instruction_set([&] {
    const auto x = empty({17});
    kernels::fill(*stream_, *x, std::nanf(""));
    const auto y = empty({17});
    kernels::gelu_forward(*stream_, *x, *y);
    for (const float value : y->get<float>()) EXPECT_TRUE(std::isnan(value));
    kernels::fill(*stream_, *y, 1);
    kernels::gelu_backward(*stream_, *x, *y, *y);
    for (const float value : y->get<float>()) EXPECT_TRUE(std::isnan(value));
  });
}

using Dropout = KernelTest;

TEST_F(Dropout, KeepsExactlyTheElementsWhoseDrawReachesTheProbability) {
  // Where the view begins within a counter, and where a counter's low word wraps.
  const std::uint64_t wrap = (std::uint64_t{1} << 34) - 40;
  for (const std::uint64_t first :
       {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{4098}, wrap}) {
    for (const float probability : {0.1F, 0.5F, 0.97F}) {
      const std::int64_t count = 8192 + 1201;
      const RandomStream stream(seed_, RandomPurpose::kDropout, 7, 11);
      const kernels::DropoutMask mask{.stream = stream, .first = first, .probability = probability};
      const auto x = random({count});
      const auto residual = random({count});
      const auto values = x->get<float>();
      const auto before = residual->get<float>();
      std::vector<float> dropped(values.size());
      std::vector<float> sums(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool keep = stream.uniform(first + i) >= probability;
        dropped[i] = keep ? values[i] * (1.0F / (1.0F - probability)) : 0.0F;
        sums[i] = before[i] + dropped[i];
      }
      for_each_instruction_set([&] {
        const auto result = empty({count});
        kernels::dropout(*stream_, mask, *x, *result);
        EXPECT_EQ(result->get<float>(), dropped);
        kernels::copy(*stream_, *residual, *result);
        kernels::dropout_add(*stream_, mask, *x, *result, *result);  // in place
        EXPECT_EQ(result->get<float>(), sums);
      });
    }
  }
}

TEST_F(Dropout, OfAPieceEqualsThatPieceOfTheWhole) {
  const std::int64_t count = 3001;
  kernels::DropoutMask mask{
      .stream = RandomStream(seed_, RandomPurpose::kDropout, 1), .first = 5, .probability = 0.3F};
  const auto x = random({count});
  const auto whole = empty({count});
  kernels::dropout(*stream_, mask, *x, *whole);
  const auto piece = empty({1000});
  mask.first += 1234;
  kernels::dropout(*stream_, mask, x->view().flat(1234, 1000), *piece);
  const auto all = whole->get<float>();
  EXPECT_EQ(piece->get<float>(), std::vector<float>(all.begin() + 1234, all.begin() + 2234));
}

TEST_F(Dropout, OfProbabilityZeroIsAPlainSum) {
  const kernels::DropoutMask mask{.stream = RandomStream(seed_, RandomPurpose::kDropout, 1)};
  const auto x = random({97});
  const auto residual = random({97});
  const auto sum = empty({97});
  for_each_instruction_set([&] {
    kernels::dropout_add(*stream_, mask, *x, *residual, *sum);
    const auto a = x->get<float>();
    const auto b = residual->get<float>();
    const auto result = sum->get<float>();
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(result[i], a[i] + b[i]);
  });
}

TEST_F(Dropout, DropsTheShareThatWasAskedFor) {
  const std::int64_t count = 200000;
  const auto x = empty({count});
  kernels::fill(*stream_, *x, 1);
  const kernels::DropoutMask mask{.stream = RandomStream(seed_, RandomPurpose::kDropout, 3),
                                  .probability = 0.2F};
  kernels::dropout(*stream_, mask, *x, *x);
  double dropped = 0;
  for (const float value : x->get<float>()) dropped += value == 0 ? 1 : 0;
  // Six standard deviations of a binomial share: sqrt(0.2 * 0.8 / n).
  EXPECT_NEAR(dropped / static_cast<double>(count), 0.2, 6 * std::sqrt(0.16 / 200000));
}

TEST_F(Dropout, RefusesToDropEverything) {
  const auto x = empty({3});
  const kernels::DropoutMask mask{.stream = RandomStream(1, RandomPurpose::kDropout, 3),
                                  .probability = 1};
  EXPECT_DEATH(kernels::dropout(*stream_, mask, *x, *x), "keeps nothing");
}

TEST_F(Pointwise, FillNormalDrawsTheStreamsNumbers) {
  // Enough of them that some are drawn the slow way because vectors leave them in doubt.
  const std::int64_t count = (1 << 21) + 3;
  const RandomStream random(seed_, RandomPurpose::kInitialise, 5);
  const auto target = empty({count});
  kernels::fill_normal(*stream_, random, 0.02F, *target);
  const auto values = target->get<float>();
  std::int64_t different = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0.02F * random.normal(i)) ++different;
  }
  EXPECT_EQ(different, 0);
}

TEST_F(Pointwise, FillNormalDrawsThoseOfAPartsPlaceInTheWhole) {
  const RandomStream random(seed_, RandomPurpose::kInitialise, 5);
  const auto target = empty({3, 4});  // columns 5 ... 8 of three rows of 11
  kernels::fill_normal(*stream_, random, 0.02F, *target, {.first = 5, .length = 4, .stride = 11});
  const auto values = target->get<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], 0.02F * random.normal(5 + i / 4 * 11 + i % 4));
  }
}

}  // namespace
}  // namespace quadrille::test
