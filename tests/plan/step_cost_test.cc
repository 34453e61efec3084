// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/step_cost.h"

#include <gmock/gmock.h>

#include "plan/training_runs.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using testing_runs::cluster_of;
using testing_runs::gpt3;
using testing_runs::run_of;

StepCost cost_of(const TrainingRun& run, const ClusterSpec& cluster) {
  const auto cost = predict_step(run, cluster);
  EXPECT_TRUE(cost.has_value()) << (cost ? "" : cost.error().to_text());
  return cost.value_or(StepCost{});
}

double seconds(const TrainingRun& run, const ClusterSpec& cluster) {
  return cost_of(run, cluster).total().count();
}

TransformerShape small_model() {
  return {.layers = 24,
          .hidden = 2048,
          .heads = 16,
          .kv_heads = 16,
          .ffn = 8192,
          .vocab = 50304,
          .sequence = 2048,
          .tied = true};
}

TEST(StepCost, IsNeverFasterThanThePeakOfTheDevices) {
  const TrainingRun run = run_of(gpt3(), {.data = 8, .tensor = 8, .pipeline = 8}, 64);
  const double tokens = static_cast<double>(run.global_batch * run.model.sequence);
  const double flops = 6 * run.model.parameters() * tokens;
  const double ideal = flops / (512 * 989e12);
  const double predicted = seconds(run, cluster_of("H100-80GB", 512));
  EXPECT_GT(predicted, ideal);
  EXPECT_LT(predicted, 4 * ideal);
}

TEST(StepCost, HasABubbleOfAllStagesButOneWhenTheyAreEqual) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 8);
  TransformerShape model = small_model();
  model.vocab = 64;  // The head weighs nothing, so that stages are equal.
  constexpr int kMicroBatches = 16;
  const TrainingRun run = run_of(model, {.pipeline = 8}, kMicroBatches);
  const StepCost cost = cost_of(run, cluster);
  const double busy = cost.compute.count() + cost.host.count() + cost.stage_transfer.count();
  EXPECT_NEAR(cost.bubble.count() / busy, 7.0 / kMicroBatches, 0.01);
}

TEST(StepCost, DividesTheBubbleByTheChunksOfAStage) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 8);
  RunLayout layout{.pipeline = 8};
  const double whole = cost_of(run_of(small_model(), layout, 16), cluster).bubble.count();
  layout.interleave = 3;
  layout.schedule = PipelineKind::kInterleaved;
  const double chunks = cost_of(run_of(small_model(), layout, 16), cluster).bubble.count();
  EXPECT_NEAR(whole / chunks, 3, 0.2);
}

TEST(StepCost, OrdersTheBubblesOfTheSchedules) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 8);
  RunLayout layout{.pipeline = 8};
  const double plain = cost_of(run_of(small_model(), layout, 16), cluster).bubble.count();
  layout.schedule = PipelineKind::kZeroBubbleOne;
  const double one = cost_of(run_of(small_model(), layout, 16), cluster).bubble.count();
  layout.schedule = PipelineKind::kZeroBubbleTwo;
  const double two = cost_of(run_of(small_model(), layout, 16), cluster).bubble.count();
  EXPECT_LT(one, 0.7 * plain);
  EXPECT_LT(two, 0.5 * one);
}

TEST(StepCost, WaitsForTheStageThatHoldsMoreLayers) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 8);
  TransformerShape model = small_model();
  model.vocab = 64;  // So that the head does not decide.
  const double even = seconds(run_of(model, {.pipeline = 8}, 64), cluster);
  model.layers = 25;  // One stage holds 4, the others 3.
  const double uneven = seconds(run_of(model, {.pipeline = 8}, 64), cluster);
  EXPECT_GT(uneven / even, 1.2);
}

TEST(StepCost, ChargesATensorAxisThatLeavesTheNode) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 16);
  const TrainingRun inside = run_of(gpt3(), {.tensor = 8, .pipeline = 2}, 8);
  const TrainingRun across = run_of(gpt3(), {.tensor = 16}, 8);
  const double in_node = cost_of(inside, cluster).tensor_transfer.count();
  const double over_network = cost_of(across, cluster).tensor_transfer.count();
  EXPECT_GT(over_network, 3 * in_node);
}

TEST(StepCost, RunsTheForwardAgainForFullRecompute) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 8);
  TrainingRun run = run_of(small_model(), {.data = 8, .micro_batch = 4}, 8);
  const StepCost kept = cost_of(run, cluster);
  run.layout.recompute = RecomputeKind::kFull;
  const StepCost again = cost_of(run, cluster);
  EXPECT_EQ(kept.recompute.count(), 0);
  const double share = again.recompute.count() / again.compute.count();
  EXPECT_GT(share, 0.2);  // A third of the layers' forward and backward, less the head's part.
  EXPECT_LT(share, 1.0 / 3);
}

TEST(StepCost, PaysTheHostWhereKernelsAreTiny) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 8);
  TransformerShape model = small_model();
  model.hidden = 512;
  model.ffn = 2048;
  model.sequence = 256;
  TrainingRun run = run_of(model, {.data = 8}, 8);
  run.software.fused = false;
  const StepCost tiny = cost_of(run, cluster);
  EXPECT_GT(tiny.host.count(), tiny.compute.count());
  run.layout.micro_batch = 256;
  run.global_batch = 8 * 256;
  const StepCost large = cost_of(run, cluster);
  EXPECT_LT(large.host.count(), 0.05 * large.compute.count());
}

TEST(StepCost, HidesGradientsBehindBackwardOnlyWhereTheSoftwareDoes) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 64);
  TrainingRun run = run_of(small_model(), {.data = 64, .micro_batch = 4}, 1);
  const double hidden = cost_of(run, cluster).gradient_transfer.count();
  run.software.overlap_gradients = false;
  EXPECT_GT(cost_of(run, cluster).gradient_transfer.count(), 1.3 * hidden);
}

TEST(StepCost, ExposesGathersOfShardedParametersWhenComputeIsShort) {
  ClusterSpec slow =
      known_cluster({.device = "A100-80GB", .count = 64, .network_bandwidth = 1e9}).value();
  const ClusterSpec fast = cluster_of("A100-80GB", 64);
  const TrainingRun run = run_of(small_model(), {.data = 64, .sharding = 3}, 1);
  EXPECT_GT(cost_of(run, slow).parameter_transfer.count(),
            5 * cost_of(run, fast).parameter_transfer.count());
}

TEST(StepCost, IsSlowerWithUnalignedHeadsInPlainAttention) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 8);
  TransformerShape model = gpt3();
  model.layers = 8;
  model.hidden = 13824;
  model.ffn = 4 * 13824;
  TrainingRun run = run_of(model, {.tensor = 8, .micro_batch = 4}, 8);
  run.software.flash = false;
  run.model.heads = run.model.kv_heads = 108 * 2;  // Heads of 64.
  const double aligned = seconds(run, cluster);
  run.model.heads = run.model.kv_heads = 128;  // Heads of 108.
  EXPECT_GT(seconds(run, cluster) / aligned, 1.05);
}

TEST(StepCost, GoesAtThePaceOfTheSlowestKindOfNode) {
  ClusterSpec cluster = cluster_of("H100-80GB", 16);
  const TrainingRun run = run_of(small_model(), {.data = 16, .micro_batch = 4}, 4);
  const double fast = seconds(run, cluster);
  const DeviceSpec* older = find_known_device("A100-80GB");
  cluster.devices.push_back(*older);
  cluster.nodes = {{.device = cluster.devices[0].name, .count = 1, .devices_per_node = 8},
                   {.device = older->name, .count = 1, .devices_per_node = 8}};
  EXPECT_GT(seconds(run, cluster), 1.5 * fast);
}

TEST(StepCost, RefusesARunWithEveryReason) {
  TrainingRun run = run_of(small_model(), {.data = 3, .tensor = 5, .pipeline = 48}, 1);
  run.global_batch = 7;
  run.format = NumberFormat::kFp8;
  const auto cost = predict_step(run, cluster_of("A100-80GB", 8));
  ASSERT_FALSE(cost.has_value());
  const std::string text = cost.error().to_text();
  EXPECT_THAT(text, HasSubstr("720 ranks"));
  EXPECT_THAT(text, HasSubstr("48 stages"));
  EXPECT_THAT(text, HasSubstr("7 sequences"));
  EXPECT_THAT(text, HasSubstr("divisor of the 16 heads"));
  EXPECT_THAT(text, HasSubstr("no units for fp8"));
}

TEST(StepCost, RefusesCountsBelowOne) {
  TrainingRun run = run_of(small_model(), {.data = 8}, 1);
  run.model.heads = 0;
  run.layout.micro_batch = -1;
  const auto cost = predict_step(run, cluster_of("A100-80GB", 8));
  ASSERT_FALSE(cost.has_value());
  EXPECT_EQ(cost.error().diagnostics.size(), 2U);
}

}  // namespace
}  // namespace quadrille
