// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/infer/generation_speed.h"

#include <gtest/gtest.h>

#include "model/model_harness.h"

namespace quadrille {
namespace {

TEST(GenerationSpeed, TimesEachPartAsOftenAsItSays) {
  ModelSpec spec = testing::odd_model();
  spec.context = 64;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto device = testing::make_guarded_device();
    const GenerationSpeed speed = measure_generation(*device, {.model = spec,
                                                               .precision = precision,
                                                               .prompt = 20,
                                                               .batches = {1, 3},
                                                               .steps = 4,
                                                               .rounds = 2})
                                      .value();
    EXPECT_EQ(speed.prompt.size(), 2U);
    EXPECT_EQ(speed.products.size(), 2U);
    EXPECT_EQ(speed.read.size(), 2U);
    ASSERT_EQ(speed.decode.size(), 2U);
    for (const auto& row : speed.decode) EXPECT_EQ(row.step.size(), 8U);
    // Per layer qkv, projection and two of the MLP; the head for one token.
    const std::int64_t layer = 3 * 6 * 6 + 6 * 6 + 2 * 6 * 14;
    EXPECT_EQ(speed.prompt_flops, 2.0 * static_cast<double>(20 * 2 * layer + 11 * 6));
    EXPECT_EQ(speed.read_bytes, Bytes(4 * (2 * layer + 11 * 6)));
    EXPECT_EQ(speed.weights == speed.read_bytes, precision == Precision::kFp32);
  }
}

TEST(GenerationSpeed, RefusesWhatDoesNotFitTheContext) {
  const auto device = make_host_device();
  const auto refused =
      measure_generation(*device, {.model = testing::odd_model(), .prompt = 6, .steps = 2});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace quadrille
