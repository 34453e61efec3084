// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>

namespace quadrille {
namespace {

constexpr double kPeak = 3e-3;
constexpr double kLeast = 2e-4;

/// 100 steps of 8 sequences of 16 tokens, 10 of them warming up.
TrainingSpec training(LearningRateSchedule schedule) {
  TrainingSpec spec;
  spec.sequence = 16;
  spec.global_batch = 8;
  spec.steps = 100;
  spec.warmup_steps = 10;
  spec.learning_rate = kPeak;
  spec.minimum_learning_rate = kLeast;
  spec.decay_fraction = 0.25;
  spec.schedule = schedule;
  return spec;
}

double at_step(const TrainingSpec& spec, std::int64_t step) {
  return learning_rate_at(spec, step * spec.tokens_per_step());
}

class EverySchedule : public ::testing::TestWithParam<LearningRateSchedule> {};

TEST_P(EverySchedule, RisesLinearlyInWarmUpCountingTheStepsOwnTokens) {
  const TrainingSpec spec = training(GetParam());
  for (std::int64_t step = 0; step < 10; ++step) {
    EXPECT_DOUBLE_EQ(at_step(spec, step), kPeak * static_cast<double>(step + 1) / 10);
  }
}

TEST_P(EverySchedule, NeverRisesAfterWarmUpAndNeverFallsBelowTheMinimum) {
  const TrainingSpec spec = training(GetParam());
  double previous = kPeak;
  for (std::int64_t consumed = 10 * 128; consumed <= 101 * 128; consumed += 37) {
    const double rate = learning_rate_at(spec, consumed);
    EXPECT_LE(rate, previous) << consumed;
    EXPECT_GE(rate, kLeast) << consumed;
    previous = rate;
  }
}

TEST_P(EverySchedule, StartsAtThePeakWithoutWarmUp) {
  TrainingSpec spec = training(GetParam());
  spec.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(at_step(spec, 0), kPeak);
}

TEST_P(EverySchedule, DependsOnTokensAlone) {
  TrainingSpec small = training(GetParam());
  TrainingSpec large = small;
  large.global_batch *= 2;
  large.steps /= 2;
  large.warmup_steps /= 2;
  for (std::int64_t consumed = 10 * 128; consumed <= 100 * 128; consumed += 256) {
    EXPECT_DOUBLE_EQ(learning_rate_at(small, consumed), learning_rate_at(large, consumed));
  }
}

TEST_P(EverySchedule, IsDefinedWhenWarmUpTakesTheWholeRun) {
  TrainingSpec spec = training(GetParam());
  spec.warmup_steps = spec.steps;
  EXPECT_DOUBLE_EQ(at_step(spec, 99), kPeak);
  EXPECT_TRUE(std::isfinite(at_step(spec, 100)));
  EXPECT_TRUE(std::isfinite(at_step(spec, 101)));
}

INSTANTIATE_TEST_SUITE_P(
    LearningRate, EverySchedule,
    ::testing::Values(LearningRateSchedule::kConstant, LearningRateSchedule::kLinear,
                      LearningRateSchedule::kCosine, LearningRateSchedule::kWsd),
    [](const auto& chosen) { return std::string(kLearningRateScheduleText.text(chosen.param)); });

TEST(LearningRate, ConstantStaysAtThePeakToTheEnd) {
  const TrainingSpec spec = training(LearningRateSchedule::kConstant);
  EXPECT_DOUBLE_EQ(at_step(spec, 10), kPeak);
  EXPECT_DOUBLE_EQ(at_step(spec, 99), kPeak);
}

TEST(LearningRate, LinearIsHalfWayAfterHalfOfWhatFollowsWarmUp) {
  const TrainingSpec spec = training(LearningRateSchedule::kLinear);
  EXPECT_DOUBLE_EQ(at_step(spec, 10), kPeak);
  EXPECT_DOUBLE_EQ(at_step(spec, 55), (kPeak + kLeast) / 2);
  EXPECT_DOUBLE_EQ(at_step(spec, 100), kLeast);
  EXPECT_DOUBLE_EQ(at_step(spec, 1000), kLeast);
}

TEST(LearningRate, CosineFollowsHalfAWaveFromPeakToMinimum) {
  TrainingSpec spec = training(LearningRateSchedule::kCosine);
  spec.warmup_steps = 20;
  EXPECT_DOUBLE_EQ(at_step(spec, 20), kPeak);
  for (const double part : {0.25, 0.5, 0.75, 1.0}) {
    const auto step = static_cast<std::int64_t>(20 + part * 80);
    const double wave = 0.5 * (1 + std::cos(std::numbers::pi * part));
    EXPECT_NEAR(at_step(spec, step), kLeast + (kPeak - kLeast) * wave, 1e-15);
  }
}

TEST(LearningRate, WsdStaysAtThePeakUntilTheDecayFraction) {
  const TrainingSpec spec = training(LearningRateSchedule::kWsd);
  EXPECT_DOUBLE_EQ(at_step(spec, 40), kPeak);
  EXPECT_DOUBLE_EQ(at_step(spec, 75), kPeak);
  EXPECT_LT(at_step(spec, 76), kPeak);
  EXPECT_NEAR(at_step(spec, 80), kPeak - (kPeak - kLeast) * 5 / 25, 1e-15);
  EXPECT_DOUBLE_EQ(at_step(spec, 100), kLeast);
}

TEST(LearningRate, TheLastStepStillTrainsWhenTheMinimumIsZero) {
  for (const auto& [schedule, name] : kLearningRateScheduleText.rows) {
    TrainingSpec spec = training(schedule);
    spec.minimum_learning_rate = 0;
    EXPECT_GT(at_step(spec, 99), 0) << name;
  }
}

}  // namespace
}  // namespace quadrille
