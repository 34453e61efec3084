// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The transformer with products of factors rounded to bf16, against the float64 reference without
// rounding.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "model/model_harness.h"

namespace quadrille {
namespace {

using kernels::ProductPrecision;
using testing::ModelHarness;
using testing::random_batch;
using testing::ReferenceBatch;
using testing::ReferenceTransformer;
using testing::Values;

/// Rounding moves a factor by at most 2^-8 of itself, by 2^-9 or so on average. Forward and back
/// through two blocks, the head and the embedding a gradient passes some 40 such factors, whose
/// errors add up like a random walk: 2^-9 * sqrt(40) = 1.2%. Softmax and norms of few numbers
/// stretch it, in single tensors more than in the whole; the bounds leave them a factor of five and
/// of thirty. (A product that is left out or transposed wrongly is off by about 100%.)
constexpr double kWholeBound = 0.06;
constexpr double kTensorBound = 0.4;

/// Squared lengths of what is off and of what is expected.
struct Distance {
  double off = 0;
  double length = 0;
  void add(const Distance& other) {
    off += other.off;
    length += other.length;
  }
  [[nodiscard]] double relative() const { return std::sqrt(off / length); }
};
template <class Expected>
Distance distance(const Values& actual, const Expected& expected) {
  Distance sum;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    sum.add({(actual[i] - expected[i]) * (actual[i] - expected[i]), expected[i] * expected[i]});
  }
  return sum;
}

ModelSpec small_model() {
  ModelSpec spec = testing::odd_model();
  spec.hidden = 24;
  spec.ffn = 50;
  spec.vocab = 31;
  return spec;
}

TEST(Bf16Transformer, LossAndEveryGradientAreNearTheUnroundedReference) {
  const ModelSpec spec = small_model();
  std::mt19937_64 random(std::random_device{}());
  const ReferenceBatch batch = random_batch(spec, {3, 5}, random);
  for (const ProductPrecision precision :
       std::set{kernels::bf16_products(), ProductPrecision::kRoundedFp32}) {
    ModelHarness harness(spec, {3, 5}, precision);
    harness.randomise(random, 0.2F);  // 1 / sqrt(24): a product keeps the size of its input
    const double loss = harness.step(batch);
    ReferenceTransformer reference(spec, harness.values());
    const auto expected_loss = reference.loss_sum(batch);
    EXPECT_NEAR(loss / expected_loss.value(), 1, 0.02);
    Distance whole;
    for (const auto& [name, expected] : reference.gradients(expected_loss)) {
      const Distance of_tensor = distance(harness.gradient(name), expected);
      EXPECT_LT(of_tensor.relative(), kTensorBound) << name;
      // fp32 comes a hundred times nearer: some product would not have rounded.
      EXPECT_GT(of_tensor.relative(), 1e-4) << name;
      whole.add(of_tensor);
    }
    EXPECT_LT(whole.relative(), kWholeBound);
  }
}

}  // namespace
}  // namespace quadrille
