// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/projection.h"

#include "kernels/bfloat16.h"
#include "kernels/fixture.h"
#include "kernels/reference.h"
#include "quadrille/kernels/rounding.h"

namespace quadrille::test {
namespace {

// Rows: every number of them that has a path of its own, and more than go together. Outputs and
// inputs: one, primes, whole vectors, some left over, enough for a second thread.
const std::vector<std::int64_t> kRows{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 37};
struct Extents {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};
const std::vector<Extents> kExtents{{1, 1},    {5, 3},     {24, 64}, {13, 31},
                                    {50, 100}, {301, 129}, {7, 512}};

std::string text(std::int64_t rows, const Extents& e) {
  return std::to_string(rows) + " x " + std::to_string(e.outputs) + " x " +
         std::to_string(e.inputs);
}

class ProjectionTest : public KernelTest {
 protected:
  std::unique_ptr<Tensor> bf16_of(const TensorView& weight) {
    auto halves = empty({weight.shape()[0], 2 * weight.shape()[1]}, DType::kU8);
    kernels::to_bf16(*stream_, weight, *halves);
    return halves;
  }
  std::unique_ptr<Tensor> scratch_for(std::int64_t rows, const Extents& e) {
    return empty({kernels::projection_scratch(rows, e.outputs, e.inputs)});
  }
  /// What y holds after y = x W^T + bias [+ y].
  static Numbers reference(const Numbers& x, const Numbers& weight, const Numbers& bias,
                           const Numbers& before) {
    const auto outputs = static_cast<std::int64_t>(bias.size());
    const auto rows = static_cast<std::int64_t>(before.size()) / outputs;
    const std::int64_t inputs = static_cast<std::int64_t>(weight.size()) / outputs;
    Numbers y =
        reference_matmul(x, weight, {.m = rows, .n = outputs, .k = inputs, .transpose_b = true});
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()] + before[i];
    return y;
  }
};

TEST_F(ProjectionTest, MatchesFloat64ForAnyNumberOfRows) {
  for (const Extents& e : kExtents) {
    const auto weight = random({e.outputs, e.inputs});
    const auto bias = random({e.outputs});
    for (const std::int64_t rows : kRows) {
      SCOPED_TRACE(text(rows, e));
      const auto x = random({rows, e.inputs});
      const auto before = random({rows, e.outputs});
      const Numbers none(before->numbers().size());
      const Numbers plain = reference(x->numbers(), weight->numbers(), bias->numbers(), none);
      const Numbers sum =
          reference(x->numbers(), weight->numbers(), bias->numbers(), before->numbers());
      for_each_instruction_set([&] {
        const auto y = empty({rows, e.outputs});
        y->set(before->get<float>());
        kernels::projection(*stream_, {.x = *x, .weight = *weight, .bias = *bias, .y = *y});
        expect_close(y->numbers(), plain, 4e-6, "written");
        y->set(before->get<float>());
        kernels::projection(
            *stream_, {.x = *x, .weight = *weight, .bias = *bias, .y = *y, .accumulate = true});
        expect_close(y->numbers(), sum, 4e-6, "added");
      });
    }
  }
}

TEST_F(ProjectionTest, MultipliesBf16WeightsAsTheNumbersTheyStandFor) {
  for (const Extents& e : kExtents) {
    const auto weight = random({e.outputs, e.inputs});
    const auto halves = bf16_of(*weight);
    Numbers rounded;
    for (const float value : weight->get<float>()) rounded.push_back(nearest_bf16(value));
    const Numbers no_bias(static_cast<std::size_t>(e.outputs));
    for (const std::int64_t rows : kRows) {
      SCOPED_TRACE(text(rows, e));
      const auto x = random({rows, e.inputs});
      const auto scratch = scratch_for(rows, e);
      Numbers factors = x->numbers();
      if (rows > kernels::kFewRows) {
        for (double& value : factors) value = nearest_bf16(static_cast<float>(value));
      }
      const Numbers none(static_cast<std::size_t>(rows * e.outputs));
      const Numbers expected = reference(factors, rounded, no_bias, none);
      for_each_instruction_set([&] {
        const auto y = empty({rows, e.outputs});
        kernels::projection(*stream_, {.x = *x, .weight = *halves, .y = *y, .scratch = *scratch});
        expect_close(y->numbers(), expected, 4e-6, "y");
      });
    }
  }
}

TEST_F(ProjectionTest, ARowHasTheSameBitsWhateverRowsAndThreadsThereAre) {
  const Extents e{301, 137};
  const auto weight = random({e.outputs, e.inputs});
  const auto halves = bf16_of(*weight);
  const auto x = random({kernels::kFewRows, e.inputs});
  for (const TensorView& stored : {weight->view(), halves->view()}) {
    for_each_instruction_set([&] {
      const auto first_rows = [&](std::int64_t rows) {
        const auto y = empty({rows, e.outputs});
        kernels::projection(*stream_, {.x = x->view().rows(0, rows), .weight = stored, .y = *y});
        return y->get<float>();
      };
      const auto [one, two] = with_one_and_two_threads([&] { return first_rows(16); });
      EXPECT_TRUE(same_bits(one, two));
      for (const std::int64_t rows : {1, 2, 3, 5, 6, 7, 8, 13}) {
        const auto fewer = first_rows(rows);
        const auto end = one.begin() + static_cast<std::ptrdiff_t>(fewer.size());
        EXPECT_TRUE(same_bits(fewer, std::vector<float>(one.begin(), end))) << rows;
      }
    });
  }
}

TEST_F(ProjectionTest, PassesNanOnToItsRowAlone) {
  const auto weight = random({10, 40});
  const auto x = random({3, 40});
  auto values = x->get<float>();
  values[40 + 39] = std::nanf("");
  x->set(values);
  for_each_instruction_set([&] {
    const auto y = empty({3, 10});
    kernels::projection(*stream_, {.x = *x, .weight = *weight, .y = *y});
    const auto result = y->get<float>();
    for (std::size_t i = 0; i < result.size(); ++i) {
      EXPECT_EQ(std::isnan(result[i]), i / 10 == 1) << i;
    }
  });
}

}  // namespace
}  // namespace quadrille::test
