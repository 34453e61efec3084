// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/sampling.h"

#include <algorithm>
#include <limits>

#include "kernels/fixture.h"

namespace quadrille::test {
namespace {

class Sampling : public KernelTest {
 protected:
  struct Found {
    Numbers weights;
    Numbers sums;
    std::vector<std::int32_t> best;
  };
  Found sample(const TensorView& logits, std::int64_t known, double inverse_temperature = 1) {
    const std::int64_t rows = logits.shape()[0];
    const std::int64_t block = kernels::kSamplingBlock;
    const auto weights = empty({rows, known});
    const auto sums = empty({rows, (known + block - 1) / block}, DType::kF64);
    const auto best = empty({rows}, DType::kI32);
    kernels::sampling_weights(*stream_, {.logits = logits,
                                         .known = known,
                                         .inverse_temperature = inverse_temperature,
                                         .weights = *weights,
                                         .sums = *sums,
                                         .best = *best});
    return {weights->numbers(), sums->numbers(), best->get<std::int32_t>()};
  }
};

TEST_F(Sampling, MatchesFloat64AtOddSizesAndTemperatures) {
  for (const std::int64_t vocab : {1, 19, 256, 257, 1000}) {
    const std::int64_t known = std::max<std::int64_t>(1, vocab - 3);
    const auto logits = random({3, vocab}, 4);
    const Numbers given = logits->numbers();
    for (const double inverse : {0.2, 1.0, 3.0}) {
      for_each_instruction_set([&] {
        const Found found = sample(*logits, known, inverse);
        for (std::int64_t row = 0; row < 3; ++row) {
          const auto first = given.begin() + row * vocab;
          const auto largest = std::max_element(first, first + known);
          EXPECT_EQ(found.best[static_cast<std::size_t>(row)], largest - first);
          Numbers sums((static_cast<std::size_t>(known) + 255) / 256);
          for (std::int64_t i = 0; i < known; ++i) {
            const double expected = std::exp((first[i] - *largest) * inverse);
            EXPECT_NEAR(found.weights[static_cast<std::size_t>(row * known + i)], expected, 1e-5);
            sums[static_cast<std::size_t>(i / 256)] += expected;
          }
          for (std::size_t i = 0; i < sums.size(); ++i) {
            EXPECT_NEAR(found.sums[static_cast<std::size_t>(row) * sums.size() + i], sums[i], 1e-4);
          }
        }
      });
    }
  }
}

TEST_F(Sampling, TakesTheFirstOfEqualsAndMarksWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto logits = empty({4, 40});
  for (const std::size_t place : {std::size_t{0}, std::size_t{17}, std::size_t{39}}) {
    std::vector<float> values(160, 1.0F);
    values[place] = values[39] = 2;
    values[40 + place] = std::nanf("");
    values[80 + place] = kInfinity;
    values[120 + place] = -kInfinity;
    logits->set(values);
    for_each_instruction_set([&] {
      const auto best = sample(*logits, 40).best;
      EXPECT_EQ(best, (std::vector<std::int32_t>{static_cast<std::int32_t>(place), -1, -1, -1}));
    });
  }
}

TEST_F(Sampling, ATemperatureNearZeroLeavesOnlyTheLargest) {
  const auto logits = empty({1, 3});
  logits->set(std::vector<float>{3e38F, -3e38F, 2e38F});
  for_each_instruction_set([&] {
    EXPECT_EQ(sample(*logits, 3, 1e300).weights, (Numbers{1, 0, 0}));
  });
}

}  // namespace
}  // namespace quadrille::test
