// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/rotary_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace quadrille {
namespace {

using internal::rotary_frequencies;

/// Llama 3.1's: 128 numbers a head, base 500,000, stretched 8 times from 8,192 positions.
ModelSpec llama_3_1() {
  ModelSpec spec;
  spec.family = ModelFamily::kLlama;
  spec.hidden = 4096;
  spec.heads = 32;
  spec.rope_base = 500'000;
  spec.rope_scaling = {.type = RopeScalingType::kLlama3, .factor = 8, .original_context = 8192};
  return spec;
}

TEST(RotaryFrequencies, FallGeometricallyFromOneRadianToAlmostTheBase) {
  ModelSpec spec = llama_3_1();
  spec.rope_scaling = {};
  const auto frequencies = rotary_frequencies(spec);
  ASSERT_EQ(frequencies.size(), 64U);
  EXPECT_EQ(frequencies[0], 1);
  for (std::size_t i = 1; i < 64; ++i) {
    EXPECT_NEAR(frequencies[i] / frequencies[i - 1], std::pow(500'000, -1.0 / 64), 1e-12);
  }
}

TEST(RotaryFrequencies, LinearScalingDividesAll) {
  ModelSpec spec = llama_3_1();
  spec.rope_scaling = {};
  const auto plain = rotary_frequencies(spec);
  spec.rope_scaling = {.type = RopeScalingType::kLinear, .factor = 3};
  const auto scaled = rotary_frequencies(spec);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] / 3);
}

TEST(RotaryFrequencies, Llama3KeepsFastPairsStretchesSlowOnesAndNeverJumps) {
  ModelSpec spec = llama_3_1();
  const auto scaled = rotary_frequencies(spec);
  spec.rope_scaling = {};
  const auto plain = rotary_frequencies(spec);
  int between = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double turns = 8192 * plain[i] / (2 * std::numbers::pi);
    const double stretch = plain[i] / scaled[i];
    if (turns > 4) {
      EXPECT_EQ(stretch, 1) << i;
    } else if (turns < 1) {
      EXPECT_NEAR(stretch, 8, 1e-12) << i;
    } else {
      EXPECT_GT(stretch, 1) << i;
      EXPECT_LT(stretch, 8) << i;
      ++between;
    }
    EXPECT_TRUE(i == 0 || scaled[i] < scaled[i - 1]) << i;
  }
  EXPECT_GT(between, 3);
}

}  // namespace
}  // namespace quadrille
