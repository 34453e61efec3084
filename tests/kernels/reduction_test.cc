// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/reduction.h"

#include <array>

#include "kernels/fixture.h"

namespace quadrille::test {
namespace {

using Reduction = KernelTest;

TEST_F(Reduction, ColumnSumsMatchFloat64) {
  for (const Shape& shape : {Shape{1, 1}, Shape{67, 13}, Shape{129, 64}, Shape{300, 257}}) {
    SCOPED_TRACE(shape.to_text());
    const auto dy = random(shape);
    const Numbers terms = dy->numbers();
    for_each_instruction_set([&] {
      const auto gradient = random({shape[1]});
      Numbers expected = gradient->numbers();
      for (std::size_t i = 0; i < terms.size(); ++i) expected[i % expected.size()] += terms[i];
      kernels::add_column_sums(*stream_, *dy, *gradient);
      expect_close(gradient->numbers(), expected, 1e-6, "sums");
    });
  }
}

TEST_F(Reduction, SumOfSquaresIsAccumulatedInFloat64) {
  for (const std::int64_t count : {1, 7, 1001, 65536 * 2 + 5}) {
    const auto x = random({count});
    double expected = 0.5;
    for (const double value : x->numbers()) expected += value * value;
    for_each_instruction_set([&] {
      const auto result = empty({1}, DType::kF64);
      result->set(std::vector<double>{0.5});
      kernels::add_sum_of_squares(*stream_, *x, *result);
      EXPECT_NEAR(result->get<double>()[0], expected, 1e-13 * expected);
    });
  }
}

TEST_F(Reduction, GivesTheSameBitsWithOneThreadAndTwo) {
  const auto x = random({701, 300});
  const auto [one, two] = with_one_and_two_threads([&] {
    const auto sums = empty({300});
    const auto square = empty({1}, DType::kF64);
    kernels::add_column_sums(*stream_, *x, *sums);
    kernels::add_sum_of_squares(*stream_, *x, *square);
    Numbers bits = sums->numbers();
    bits.push_back(square->get<double>()[0]);
    return bits;
  });
  EXPECT_TRUE(same_bits(one, two));
}

TEST_F(Reduction, SumInOrderAddsFromTheFirstSourceOn) {
  const std::int64_t count = 8192 + 13;
  std::array<std::unique_ptr<Tensor>, 4> sources;
  for (auto& source : sources) source = random({count});
  std::vector<std::vector<float>> values;
  for (const auto& source : sources) values.push_back(source->get<float>());
  std::vector<float> expected(values[0].size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = ((values[0][i] + values[1][i]) + values[2][i]) + values[3][i];
  }
  for_each_instruction_set([&] {
    for (std::size_t s = 0; s < 4; ++s) sources[s]->set(values[s]);
    // The target is the third source, as where a rank sums into its own buffer.
    const std::array<TensorView, 4> views{*sources[0], *sources[1], *sources[2], *sources[3]};
    kernels::sum_in_order(*stream_, views, *sources[2]);
    EXPECT_EQ(sources[2]->get<float>(), expected);
  });
}

TEST_F(Reduction, CountsNanAndBothInfinities) {
  for (const std::int64_t count : {19, 65536 + 77}) {
    const auto x = random({count});
    auto values = x->get<float>();
    values[0] = std::nanf("");
    values[7] = HUGE_VALF;
    values[18] = -HUGE_VALF;
    values.back() = std::nanf("");
    x->set(values);
    for_each_instruction_set([&] {
      const auto result = empty({1}, DType::kF64);
      kernels::add_count_of_nonfinite(*stream_, *x, *result);
      EXPECT_EQ(result->get<double>()[0], values.size() == 19 ? 3 : 4);
    });
  }
}

}  // namespace
}  // namespace quadrille::test
