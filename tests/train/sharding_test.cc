// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What ranks divide among themselves changes where numbers lie, not which they are: losses, norms,
// weights and moments against one rank, and checkpoints from one layout to another.

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/plan/plan.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

using test::losses_of;
using test::run_tiny;
using test::tiny_job;
using testing::HasSubstr;

double relative(double a, double b) { return std::abs(a - b) / std::abs(b); }

JobSpec grouped_llama(JobSpec job) {
  job.model.family = ModelFamily::kLlama;
  job.model.heads = 4;
  job.model.kv_heads = 2;
  job.model.head_dimension = 10;
  job.model.ffn = 40;
  job.model.tie_embeddings = false;
  job.model.bias = false;
  return job;
}

class ShardingTest : public testing::Test {
 protected:
  [[nodiscard]] std::string folder(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }
  void train_into(const JobSpec& job, const std::string& name,
                  ResumePolicy resume = ResumePolicy::kNever, bool guarded = false) {
    const auto outcome =
        run_tiny(job, {.run_directory = folder(name), .resume = resume, .guarded = guarded});
    ASSERT_TRUE(outcome) << name << ": " << outcome.error().to_text();
  }
  std::vector<StepRecord> records_of(const std::string& name) const {
    return read_metrics(folder(name) + "/metrics.jsonl").value();
  }
  void expect_equal_state(const std::string& a, const std::string& b) const {
    const auto difference = diff_checkpoints(resolve_checkpoint(folder(a)).value(),
                                             resolve_checkpoint(folder(b)).value());
    ASSERT_TRUE(difference) << difference.error().to_text();
    EXPECT_EQ(*difference, std::nullopt) << a << " and " << b << ": " << **difference;
  }

  test::TemporaryFolder scratch_;
};

using Values = std::map<std::string, std::vector<float>>;

/// Every tensor of the run's newest checkpoint.
Values values_of(const std::string& run) {
  const Checkpoint checkpoint = resolve_checkpoint(run).value();
  Values all;
  for (const ManifestTensor& tensor : checkpoint.manifest().tensors) {
    std::vector<float>& values = all[tensor.name];
    values.resize(static_cast<std::size_t>(tensor.shape.elements()));
    EXPECT_TRUE(checkpoint.read_checked(tensor, std::as_writable_bytes(std::span(values))));
  }
  return all;
}

double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * double{value};
  return std::sqrt(squares);
}

/// Each tensor by the norm of the difference; one that is all but zero beside those of its kind
/// (parameters, or one of the moments) by their norm.
void expect_near(const Values& found, const Values& expected, const std::string& what) {
  const auto kind_of = [](const std::string& name) {
    return name.starts_with("optimizer.") ? name.substr(0, 17) : std::string();
  };
  std::map<std::string, double> squares;
  for (const auto& [name, values] : expected) {
    squares[kind_of(name)] += std::pow(norm_of(values), 2);
  }
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    std::vector<float> difference = found.at(name);
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= values[i];
    const double floor = 1e-6 * std::sqrt(squares[kind_of(name)]);
    EXPECT_LE(norm_of(difference), std::max(2e-5 * norm_of(values), floor)) << what << ": " << name;
  }
}

TEST_F(ShardingTest, FiftyStepsHaveTheLossesOfOneRank) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 50;
  job.model.dropout = 0.1;
  train_into(job, "one");
  const std::vector<double> one = losses_of(folder("one"));
  ASSERT_EQ(one.size(), 50U);
  job.parallel.sharding = 1;
  for (const int ranks : {1, 2, 3, 4}) {
    job.parallel.data = ranks;
    const std::string name = "ranks" + std::to_string(ranks);
    train_into(job, name);
    const std::vector<double> many = losses_of(folder(name));
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_LT(relative(many[i], one[i]), 1e-5) << ranks << " ranks, step " << i + 1;
    }
  }
}

TEST_F(ShardingTest, EveryTensorAndNormAgreesWithOneRankAfterFiveSteps) {
  for (const bool llama : {false, true}) {
    JobSpec job = tiny_job(scratch_.path());
    if (llama) job = grouped_llama(job);
    job.training.steps = 5;
    job.training.evaluate_every = 0;
    job.training.epsilon = 1e-4;
    const std::string family = llama ? "llama" : "gpt2";
    train_into(job, family);
    const auto one = records_of(family);
    const Values expected = values_of(folder(family));
    for (const int sharding : {0, 1}) {
      for (const int ranks : {2, 3, 4}) {
        job.parallel = {.data = ranks, .sharding = sharding};
        job.training.micro_batch = ranks == 2 ? 3 : 1;
        job.communication.bucket = ranks == 3 ? Bytes(4) : 8_KiB;
        const std::string name =
            family + "-" + std::to_string(ranks) + "-" + std::to_string(sharding);
        train_into(job, name);
        const auto many = records_of(name);
        ASSERT_EQ(many.size(), one.size());
        for (std::size_t i = 0; i < one.size(); ++i) {
          EXPECT_LT(relative(many[i].loss, one[i].loss), 1e-5) << name << ", step " << i + 1;
          EXPECT_LT(relative(many[i].gradient_norm, one[i].gradient_norm), 1e-5) << name;
        }
        expect_near(values_of(folder(name)), expected, name);
      }
    }
  }
}

TEST_F(ShardingTest, TheMomentsOfOneRankAreDividedAndAsPlanned) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 2;
  Bytes whole;
  for (const int ranks : {1, 2, 3, 4, 6}) {
    job.parallel = {.data = ranks, .sharding = 1};
    const auto plan = make_plan(job, {.cores = 2});
    ASSERT_TRUE(plan) << plan.error().to_text();
    const std::string name = "ranks" + std::to_string(ranks);
    train_into(job, name);
    const StepRecord last = records_of(name).back();
    for (const auto& [tag, predicted] : plan->rank_bytes) {
      EXPECT_EQ(predicted.count(), last.peak_by_tag.at(tag).count()) << tag << ", " << name;
    }
    const Bytes moments = last.peak_by_tag.at("optimizer");
    if (ranks == 1) whole = moments;
    // Pieces are padded to cache lines; nothing else is beyond the share.
    EXPECT_LT(static_cast<double>(moments.count()),
              1.05 * static_cast<double>(whole.count()) / ranks + 64 * 40 * 2);
  }
}

TEST_F(ShardingTest, ACheckpointOfAnyLayoutGoesOnInAnyOtherBitForBit) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.clip = 0;  // the norm is summed in another order where it is sharded
  const auto layout_of = [](int ranks, int sharding) {
    ParallelSpec layout;
    layout.data = ranks;
    layout.sharding = sharding;
    return layout;
  };
  const auto continued = [&](const std::string& origin, const ParallelSpec& layout) {
    const std::string moved =
        origin + "-" + std::to_string(layout.data) + "-" + std::to_string(layout.sharding);
    std::filesystem::copy(folder(origin), folder(moved), std::filesystem::copy_options::recursive);
    job.parallel = layout;
    job.training.steps = 4;
    train_into(job, moved, ResumePolicy::kRequired);
    return moved;
  };
  for (const auto& from : {layout_of(1, 0), layout_of(2, 1), layout_of(3, 1), layout_of(6, 1)}) {
    job.parallel = from;
    job.training.steps = 3;
    const std::string origin =
        "from-" + std::to_string(from.data) + "-" + std::to_string(from.sharding);
    train_into(job, origin);
    for (const int ranks : {2, 3}) {
      expect_equal_state(continued(origin, layout_of(ranks, 1)),
                         continued(origin, layout_of(ranks, 0)));
    }
  }
}

TEST_F(ShardingTest, AResumedRunEqualsAnUninterruptedOneBitForBit) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 10;
  job.checkpoint.every = 5;
  job.parallel = {.data = 3, .sharding = 1};
  job.model.dropout = 0.1;
  train_into(job, "whole");
  train_into(job, "cut");
  std::filesystem::remove_all(folder("cut") + "/checkpoints/step-00000010");
  train_into(job, "cut", ResumePolicy::kRequired);
  EXPECT_EQ(losses_of(folder("cut")), losses_of(folder("whole")));
  expect_equal_state("cut", "whole");
}

TEST_F(ShardingTest, ADeviceWhoseMemoryTheHostCannotTouchTrainsToTheSameBits) {
  JobSpec job = tiny_job(scratch_.path());
  job.parallel = {.data = 2, .sharding = 1};
  job.checkpoint.every = 3;
  train_into(job, "host");
  train_into(job, "guarded", ResumePolicy::kNever, true);
  EXPECT_EQ(losses_of(folder("guarded")), losses_of(folder("host")));
  expect_equal_state("guarded", "host");
}

TEST_F(ShardingTest, BucketSizeChangesNoBit) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.clip = 0;  // a norm is summed by slices, and they follow from the buckets
  job.parallel = {.data = 3, .sharding = 1};
  train_into(job, "small");
  job.communication.bucket = 64_MiB;
  train_into(job, "large");
  EXPECT_EQ(losses_of(folder("large")), losses_of(folder("small")));
}

TEST_F(ShardingTest, ANonFiniteStepIsTheSameErrorOnEveryRankAndNamesATensor) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.learning_rate = 1e30;  // the first update throws the parameters out of range
  job.training.warmup_steps = 0;
  job.training.clip = 0;
  job.parallel = {.data = 3, .sharding = 1};
  const auto outcome = run_tiny(job, {.run_directory = folder("run")});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kAborted);
  EXPECT_THAT(outcome.error().message, HasSubstr("first bad tensor: "));
}

}  // namespace
}  // namespace quadrille
