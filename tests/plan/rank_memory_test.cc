// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/rank_memory.h"

#include <gtest/gtest.h>

#include "plan/training_runs.h"

namespace quadrille {
namespace {

using testing_runs::gpt3;
using testing_runs::run_of;

double activations(const TrainingRun& run) {
  return rank_memory(run, MemoryMeasure::kAllocated).activations;
}

TrainingRun plain_run(const RunLayout& layout) {
  TrainingRun run = run_of(gpt3(), layout, 64);
  run.software.flash = false;
  return run;
}

// Korthikanti et al. 2022, table 2: s sequence, b micro-batch, h hidden, a heads, t tensor degree.
TEST(RankMemory, MatchesThePublishedBytesOfALayer) {
  const double sbh = 2048.0 * 2 * 12288;
  const double scores = 5.0 * 96 * 2048 / 12288;  // 5as/h
  const double layers = 96;
  RunLayout layout{.tensor = 1, .micro_batch = 2};
  EXPECT_NEAR(activations(plain_run(layout)), layers * sbh * (34 + scores), 1);
  layout.tensor = 8;
  EXPECT_NEAR(activations(plain_run(layout)), layers * sbh * (10 + 24.0 / 8 + scores / 8), 1);
  layout.sequence = true;
  EXPECT_NEAR(activations(plain_run(layout)), layers * sbh / 8 * (34 + scores), 1);
  layout.recompute = RecomputeKind::kSelective;  // And the scores of the layer at work.
  EXPECT_NEAR(activations(plain_run(layout)), sbh / 8 * (layers * 34 + scores), 1);
  layout.recompute = RecomputeKind::kFull;
  EXPECT_NEAR(activations(plain_run(layout)), sbh / 8 * (layers * 2 + 34 + scores), 1);
}

TEST(RankMemory, HoldsAMicroBatchPerStageInFlight) {
  const double one = activations(run_of(gpt3(), {.pipeline = 8}, 1));
  EXPECT_NEAR(activations(run_of(gpt3(), {.pipeline = 8}, 64)), 8 * one, 1);
  EXPECT_NEAR(activations(run_of(gpt3(), {.pipeline = 8}, 3)), 3 * one, 1);
}

// 1 + (p-1)/(pm) more with m chunks a stage: Korthikanti et al. 2022, section 4.2.3.
TEST(RankMemory, HoldsMoreWithInterleavedChunks) {
  const double plain = activations(run_of(gpt3(), {.pipeline = 8}, 64));
  const TrainingRun chunks =
      run_of(gpt3(), {.pipeline = 8, .interleave = 3, .schedule = PipelineKind::kInterleaved}, 64);
  EXPECT_NEAR(activations(chunks) / plain, 1 + 7.0 / (8 * 3), 1e-9);
}

TEST(RankMemory, DoublesTheActivationsForTheSecondZeroBubbleSchedule) {
  RunLayout layout{.pipeline = 8, .schedule = PipelineKind::kZeroBubbleOne};
  const double one = activations(run_of(gpt3(), layout, 64));
  layout.schedule = PipelineKind::kZeroBubbleTwo;
  EXPECT_NEAR(activations(run_of(gpt3(), layout, 64)) / one, 15.0 / 8, 1e-9);
}

TEST(RankMemory, ShardsTheStatesByStage) {
  RunLayout layout{.data = 8};
  const double parameters = gpt3().parameters();
  const auto states = [&] {
    const RankMemory memory = rank_memory(run_of(gpt3(), layout, 1), MemoryMeasure::kAllocated);
    return (memory.parameters + memory.gradients + memory.optimizer) / parameters;
  };
  EXPECT_NEAR(states(), 2 + 2 + 12, 1e-6);
  layout.sharding = 1;
  EXPECT_NEAR(states(), 2 + 2 + 12.0 / 8, 1e-6);
  layout.sharding = 2;
  EXPECT_NEAR(states(), 2 + 16.0 / 8, 1e-6);
  layout.sharding = 3;
  EXPECT_NEAR(states(), 16.0 / 8, 1e-6);
}

TEST(RankMemory, CountsTheLogitsOnTheLastStageOnly) {
  TrainingRun run = run_of(gpt3(), {.tensor = 8, .pipeline = 4}, 8);
  run.model.vocab = 4'000'000;
  const RankMemory last = rank_memory(run, MemoryMeasure::kAllocated, RankPlace::kLast);
  EXPECT_NEAR(last.logits, 6.0 * 2048 * 500'000 + 2.0 * 2048 * 12288, 1);
  run.model.vocab = 8;
  EXPECT_EQ(rank_memory(run, MemoryMeasure::kAllocated, RankPlace::kFullest).logits, 0);
}

TEST(RankMemory, AddsWhatADriverAndItsCommunicatorsHold) {
  const TrainingRun run = run_of(gpt3(), {.data = 2, .tensor = 8}, 8);
  const double allocated = rank_memory(run, MemoryMeasure::kAllocated).total();
  const double reserved = rank_memory(run, MemoryMeasure::kReserved).total();
  const RankMemory device = rank_memory(run, MemoryMeasure::kDevice);
  EXPECT_LT(allocated, reserved);
  const MemoryConstants constants;
  EXPECT_NEAR(device.total() - reserved, constants.context_bytes + 2 * constants.channel_bytes, 1);
}

}  // namespace
}  // namespace quadrille
