// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Layouts against one rank: every loss, residual, gradient and weight of five steps. Models that
// nothing divides; layouts pruned so that each pair of values meets.

#include <gtest/gtest.h>

#include <filesystem>

#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/config/layout.h"
#include "support/tiny_run.h"
#include "train/layout_comparison.h"

namespace quadrille {
namespace {

using internal::first_difference;
using internal::trace_layout;
using internal::TracedStep;

constexpr std::int64_t kSteps = 5;

/// A step's epsilon is large enough that noise in gradients that are zero moves no weight.
JobSpec uneven_job(const std::string& folder, ModelFamily family) {
  JobSpec job = test::tiny_job(folder);
  job.model = {.layers = 2, .hidden = 20, .heads = 5, .ffn = 37, .vocab = 259, .context = 16};
  if (family == ModelFamily::kLlama) {
    job.model.family = family;
    job.model.heads = 4;
    job.model.kv_heads = 2;
    job.model.head_dimension = 6;
    job.model.tie_embeddings = false;
    job.model.bias = false;
  }
  job.model.dropout = 0.1;
  job.training.sequence = 13;
  job.training.epsilon = 1e-4;
  job.training.clip = 0.5;
  job.training.steps = kSteps;
  return job;
}

class TensorParallelTest : public testing::Test {
 protected:
  std::vector<TracedStep> trace(JobSpec job, const Layout& layout) {
    job.parallel = layout.parallel;
    job.training.micro_batch = layout.micro_batch;
    const auto steps =
        trace_layout(job, kSteps, scratch_.path() + "/run" + std::to_string(runs_++));
    EXPECT_TRUE(steps) << steps.error().to_text();
    return steps ? *steps : std::vector<TracedStep>{};
  }

  void expect_equal(const JobSpec& job, const std::vector<TracedStep>& one,
                    const std::string& text) {
    const auto layout = parse_layout(text);
    ASSERT_TRUE(layout) << layout.error().to_text();
    const std::vector<TracedStep> many = trace(job, *layout);
    ASSERT_EQ(many.size(), one.size()) << text;
    const auto difference = first_difference(one, many, ParallelSpec{}, layout->parallel);
    EXPECT_FALSE(difference) << text << ": " << *difference;
  }

  test::TemporaryFolder scratch_;
  int runs_ = 0;
};

TEST_F(TensorParallelTest, AGpt2EqualsOneRankInEveryTensorOnEveryLayout) {
  const JobSpec job = uneven_job(scratch_.path(), ModelFamily::kGpt2);
  const std::vector<TracedStep> one = trace(job, {.micro_batch = 4});
  ASSERT_EQ(one.size(), std::size_t(kSteps));
  for (const char* layout :
       {"tensor=2,micro_batch=2", "tensor=3,micro_batch=4", "tensor=2,sequence=1,micro_batch=4",
        "tensor=3,sequence=1,micro_batch=2", "data=2,tensor=2,micro_batch=1",
        "data=2,tensor=3,sequence=1,micro_batch=1", "data=3,tensor=2,sequence=1,micro_batch=2",
        "data=3,tensor=3,micro_batch=4"}) {
    expect_equal(job, one, layout);
  }
}

TEST_F(TensorParallelTest, ALlamaWithFewKeyHeadsEqualsOneRankToo) {
  JobSpec job = uneven_job(scratch_.path(), ModelFamily::kLlama);
  job.communication.bucket = 1_KiB;
  const std::vector<TracedStep> one = trace(job, {.micro_batch = 6});
  ASSERT_EQ(one.size(), std::size_t(kSteps));
  for (const char* layout :
       {"tensor=2,micro_batch=6", "tensor=3,sequence=1,micro_batch=4",
        "data=2,tensor=2,sequence=1,micro_batch=3", "data=2,tensor=3,micro_batch=2",
        "data=3,tensor=3,sequence=1,micro_batch=1"}) {
    expect_equal(job, one, layout);
  }
}

TEST_F(TensorParallelTest, TheOptimizersStateIsShardedOverDataBesides) {
  const JobSpec job = uneven_job(scratch_.path(), ModelFamily::kGpt2);
  const std::vector<TracedStep> one = trace(job, {.micro_batch = 4});
  for (const char* layout : {"data=2,tensor=2,sharding=1,micro_batch=2",
                             "data=2,tensor=3,sequence=1,sharding=2,micro_batch=1",
                             "data=3,tensor=2,sequence=1,sharding=3,micro_batch=2"}) {
    expect_equal(job, one, layout);
  }
}

/// Trains four steps on one layout, goes on with another, and evaluates.
std::vector<double> moved_losses(JobSpec job, const std::string& folder, const char* from,
                                 const char* to) {
  job.training.steps = 8;
  job.checkpoint.every = 4;
  job.parallel = parse_layout(from)->parallel;
  const auto first = test::run_tiny(job, {.run_directory = folder});
  EXPECT_TRUE(first) << from << ": " << first.error().to_text();
  std::filesystem::remove_all(folder + "/checkpoints/step-00000008");
  job.parallel = parse_layout(to)->parallel;
  const auto second =
      test::run_tiny(job, {.run_directory = folder, .resume = ResumePolicy::kRequired});
  EXPECT_TRUE(second) << to << ": " << second.error().to_text();
  return test::losses_of(folder);
}

TEST_F(TensorParallelTest, ARunGoesOnInAnotherLayoutFromItsCheckpoint) {
  for (const ModelFamily family : {ModelFamily::kGpt2, ModelFamily::kLlama}) {
    JobSpec job = uneven_job(scratch_.path(), family);
    job.training.steps = 8;
    job.training.micro_batch = 2;
    const std::string folder = scratch_.path() + "/" + std::string(kModelFamilyText.text(family));
    ASSERT_TRUE(test::run_tiny(job, {.run_directory = folder + "one"}));
    const std::vector<double> one = test::losses_of(folder + "one");
    int run = 0;
    for (const auto& [from, to] :
         {std::pair("data=2,tensor=3,sequence=1", "data=1"),
          {"data=3,sharding=1", "tensor=2"},
          {"data=2,tensor=2,sharding=2", "data=2,tensor=3,sequence=1,sharding=3"}}) {
      const std::vector<double> moved = moved_losses(job, folder + std::to_string(run++), from, to);
      ASSERT_EQ(moved.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_NEAR(moved[i], one[i], 1e-5 * one[i]) << from << " -> " << to << ", step " << i + 1;
      }
    }
  }
}

TEST_F(TensorParallelTest, ACheckpointOfPiecesReadsAlikeWholeAndByOffset) {
  JobSpec job = uneven_job(scratch_.path(), ModelFamily::kGpt2);
  job.training.micro_batch = 2;
  job.training.steps = 2;
  job.parallel = parse_layout("data=2,tensor=3,sequence=1")->parallel;
  const std::string folder = scratch_.path() + "/moved";
  ASSERT_TRUE(test::run_tiny(job, {.run_directory = folder}));
  const auto saved = resolve_checkpoint(folder);
  ASSERT_TRUE(saved) << saved.error().to_text();
  EXPECT_TRUE(saved->verify());
  for (const ManifestTensor& tensor : saved->manifest().tensors) {
    std::vector<std::byte> whole(
        static_cast<std::size_t>(tensor.shape.elements() * element_bytes(tensor.dtype)));
    ASSERT_TRUE(saved->read_checked(tensor, whole));
    std::vector<std::byte> by_offset(whole.size());
    ASSERT_TRUE(saved->read(tensor, Bytes(0), by_offset));
    EXPECT_EQ(by_offset, whole) << tensor.name;
  }
  const auto same = diff_checkpoints(*saved, *resolve_checkpoint(folder));
  ASSERT_TRUE(same);
  EXPECT_EQ(*same, std::nullopt);
}

TEST_F(TensorParallelTest, ADifferenceIsNamedByTensorLayerPhaseAndAxis) {
  const JobSpec job = uneven_job(scratch_.path(), ModelFamily::kGpt2);
  const std::vector<TracedStep> one = trace(job, {.micro_batch = 4});
  std::vector<TracedStep> other = one;
  const ParallelSpec layout{.data = 2, .tensor = 2};
  // A head's gradient that one rank did not reduce: its rows alone are wrong.
  for (auto& tensor : other[1].tensors) {
    if (tensor.phase != internal::TracePhase::kGradient || tensor.name != "h.1.mlp.c_fc.weight") {
      continue;
    }
    tensor.tensor = AxisPlacement::sharded(0);
    for (std::size_t i = 0; i < tensor.values.size() / 4; ++i) tensor.values[i] *= 2;
  }
  const auto difference = first_difference(one, other, ParallelSpec{}, layout);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->substr(0, difference->find(':')),
            "step 2, gradient h.1.mlp.c_fc.weight of layer 2");
  EXPECT_NE(difference->find("likely axis: tensor: the worst elements"), std::string::npos)
      << *difference;
  // The same factor on all of it could come from any axis that differs.
  other = one;
  other[0].gradient_norm *= 1.001;
  const auto norm = first_difference(one, other, ParallelSpec{}, layout);
  ASSERT_TRUE(norm);
  EXPECT_NE(norm->find("step 1, gradient norm before clipping"), std::string::npos);
}

}  // namespace
}  // namespace quadrille
