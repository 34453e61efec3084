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
using test::tiny_llama_job;
using testing::HasSubstr;

double relative(double a, double b) { return std::abs(a - b) / std::abs(b); }

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
  for (const auto& [ranks, sharding] : {std::pair{1, 3}, {2, 1}, {3, 1}, {4, 1}, {2, 2}, {3, 3}}) {
    job.parallel.data = ranks;
    job.parallel.sharding = sharding;
    const std::string name = std::to_string(ranks) + "-" + std::to_string(sharding);
    train_into(job, name);
    const std::vector<double> many = losses_of(folder(name));
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_LT(relative(many[i], one[i]), 1e-5) << name << ", step " << i + 1;
    }
  }
}

/// One rank's run of a family and what every layout must come to.
struct Reference {
  std::vector<StepRecord> records;
  Values values;
};

class ShardingGrid : public ShardingTest {
 protected:
  JobSpec job_of(bool llama) const {
    JobSpec job = llama ? tiny_llama_job(scratch_.path()) : tiny_job(scratch_.path());
    job.training.steps = 5;
    job.training.evaluate_every = 0;
    job.training.epsilon = 1e-4;
    return job;
  }
  Reference reference_of(bool llama) {
    const std::string name = llama ? "llama" : "gpt2";
    train_into(job_of(llama), name);
    return {records_of(name), values_of(folder(name))};
  }
  void expect_like(const Reference& one, const JobSpec& job) {
    const std::string name = std::to_string(runs_++) + ", " + std::to_string(job.parallel.data) +
                             " ranks, stage " + std::to_string(job.parallel.sharding) +
                             ", micro-batch " + std::to_string(job.training.micro_batch) +
                             ", buckets of " + std::to_string(job.communication.bucket.count());
    train_into(job, name);
    const auto many = records_of(name);
    ASSERT_EQ(many.size(), one.records.size());
    for (std::size_t i = 0; i < many.size(); ++i) {
      EXPECT_LT(relative(many[i].loss, one.records[i].loss), 1e-5) << name << ", step " << i + 1;
      EXPECT_LT(relative(many[i].gradient_norm, one.records[i].gradient_norm), 1e-5) << name;
    }
    expect_near(values_of(folder(name)), one.values, name);
  }
  int runs_ = 0;
};

// {ranks 1..4} x {stage 0..3} x {GPT-2 tied, Llama grouped-query untied}; micro-batch and size of
// buckets so that each meets every other value.
TEST_F(ShardingGrid, EveryTensorAndNormAgreesWithOneRankAfterFiveSteps) {
  for (const bool llama : {false, true}) {
    const Reference one = reference_of(llama);
    JobSpec job = job_of(llama);
    int cell = 0;
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int sharding : {0, 1, 2, 3}) {
        ++cell;
        job.parallel.data = ranks;
        job.parallel.sharding = sharding;
        const std::int64_t share = job.training.global_batch / ranks;
        job.training.micro_batch = (cell + ranks) % 2 == 0 ? 1 : share;
        job.communication.bucket = cell % 3 == 0 ? Bytes(4) : cell % 3 == 1 ? 8_KiB : 4_MiB;
        expect_like(one, job);
      }
    }
  }
}

TEST_F(ShardingTest, WhatIsDividedShrinksWithTheRanksAndAllIsAsPlanned) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 2;
  job.communication.bucket = 4_KiB;
  for (const int sharding : {1, 2, 3}) {
    std::map<std::string, Bytes> whole;
    for (const int ranks : {1, 2, 3, 6}) {
      job.parallel.data = ranks;
      job.parallel.sharding = sharding;
      const auto plan = make_plan(job, {.cores = 2});
      ASSERT_TRUE(plan) << plan.error().to_text();
      const std::string name = std::to_string(ranks) + "-" + std::to_string(sharding);
      train_into(job, name);
      const StepRecord last = records_of(name).back();
      for (const auto& [tag, predicted] : plan->rank_bytes) {
        EXPECT_EQ(predicted.count(), last.peak_by_tag.at(tag).count()) << tag << ", " << name;
      }
      if (ranks == 1) whole = last.peak_by_tag;
      const auto bytes = [&](const char* tag) {
        return static_cast<double>(last.peak_by_tag.at(tag).count());
      };
      const auto all = [&](const char* tag) { return static_cast<double>(whole.at(tag).count()); };
      // Pieces and slices are padded to cache lines.
      constexpr double kPads = 64 * 40 * 2;
      EXPECT_LT(bytes("optimizer"), all("optimizer") / ranks + kPads) << name;
      // The tied embedding's gradient, 256 rows of 24, stays whole; the largest bucket is of 96
      // rows, and two of them share memory.
      const double stays = ranks == 1 ? 0 : 4 * 24 * (256 + 2 * 96);
      if (sharding >= 2) {
        EXPECT_LT(bytes("gradient"), all("gradient") / ranks + stays + kPads) << name;
      }
      // A block has 12 matrices of 24 x 24, and 13 vectors.
      const double gathered = ranks == 1 ? 0 : 4 * (24 * 272 + 12 * 24 * 24 + 13 * 24) + kPads;
      if (sharding >= 3) {
        EXPECT_LT(bytes("parameter"), all("parameter") / ranks + gathered + kPads) << name;
      }
    }
  }
}

TEST_F(ShardingTest, ACheckpointOfAnyLayoutGoesOnInAnyOtherBitForBit) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.clip = 0;         // the norm is summed in another order where it is sharded
  job.training.micro_batch = 0;  // and gradients of several micro-batches from stage 2 on
  const auto continued = [&](const std::string& origin, int ranks, int sharding) {
    const std::string moved = origin + "-" + std::to_string(ranks) + "-" + std::to_string(sharding);
    std::filesystem::copy(folder(origin), folder(moved), std::filesystem::copy_options::recursive);
    job.parallel.data = ranks;
    job.parallel.sharding = sharding;
    job.training.steps = 4;
    train_into(job, moved, ResumePolicy::kRequired);
    return moved;
  };
  for (const auto& [from, stage] : {std::pair{1, 0}, {2, 1}, {3, 2}, {6, 3}}) {
    job.parallel.data = from;
    job.parallel.sharding = stage;
    job.training.steps = 3;
    const std::string origin = "from-" + std::to_string(from) + "-" + std::to_string(stage);
    train_into(job, origin);
    for (const int ranks : {2, 3}) {
      const std::string plain = continued(origin, ranks, 0);
      for (const int sharding : {1, 2, 3}) {
        expect_equal_state(continued(origin, ranks, sharding), plain);
      }
    }
  }
}

TEST_F(ShardingTest, AResumedRunEqualsAnUninterruptedOneBitForBit) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 10;
  job.checkpoint.every = 5;
  job.model.dropout = 0.1;
  for (const int sharding : {1, 3}) {
    job.parallel.data = 3;
    job.parallel.sharding = sharding;
    const std::string whole = "whole" + std::to_string(sharding);
    const std::string cut = "cut" + std::to_string(sharding);
    train_into(job, whole);
    train_into(job, cut);
    std::filesystem::remove_all(folder(cut) + "/checkpoints/step-00000010");
    train_into(job, cut, ResumePolicy::kRequired);
    EXPECT_EQ(losses_of(folder(cut)), losses_of(folder(whole)));
    expect_equal_state(cut, whole);
  }
}

TEST_F(ShardingTest, ADeviceWhoseMemoryTheHostCannotTouchTrainsToTheSameBits) {
  JobSpec job = tiny_job(scratch_.path());
  job.checkpoint.every = 3;
  for (const int sharding : {1, 2, 3}) {
    job.parallel.data = 2;
    job.parallel.sharding = sharding;
    const std::string host = "host" + std::to_string(sharding);
    const std::string guarded = "guarded" + std::to_string(sharding);
    train_into(job, host);
    train_into(job, guarded, ResumePolicy::kNever, true);
    EXPECT_EQ(losses_of(folder(guarded)), losses_of(folder(host)));
    expect_equal_state(guarded, host);
  }
}

TEST_F(ShardingTest, NeitherBucketSizeNorALaterStageChangesABit) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.clip = 0;         // a norm is summed by slices, and they follow from the buckets
  job.training.micro_batch = 0;  // stage 2 sums the ranks of each micro-batch
  job.parallel.data = 3;
  train_into(job, "plain");
  for (const int sharding : {1, 2, 3}) {
    for (const Bytes bucket : {Bytes(4), 8_KiB, 64_MiB}) {
      job.parallel.sharding = sharding;
      job.communication.bucket = bucket;
      const std::string name = std::to_string(sharding) + "-" + std::to_string(bucket.count());
      train_into(job, name);
      EXPECT_EQ(losses_of(folder(name)), losses_of(folder("plain"))) << name;
    }
  }
}

TEST_F(ShardingTest, StartsFromTheWeightsOfAnyCheckpoint) {
  JobSpec job = tiny_job(scratch_.path());
  train_into(job, "origin");
  job.model.weights = folder("origin");
  job.training.clip = 0;
  job.training.micro_batch = 0;
  job.parallel.data = 2;
  train_into(job, "plain");
  job.parallel.sharding = 3;
  train_into(job, "sharded");
  EXPECT_EQ(losses_of(folder("sharded")), losses_of(folder("plain")));
}

TEST_F(ShardingTest, ANonFiniteStepIsTheSameErrorOnEveryRankAndNamesATensor) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.learning_rate = 1e30;  // the first update throws the parameters out of range
  job.training.warmup_steps = 0;
  job.training.clip = 0;
  for (const int sharding : {1, 3}) {
    job.parallel.data = 3;
    job.parallel.sharding = sharding;
    const auto outcome = run_tiny(job, {.run_directory = folder("run" + std::to_string(sharding))});
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Code::kAborted);
    EXPECT_THAT(outcome.error().message, HasSubstr("first bad tensor: "));
  }
}

}  // namespace
}  // namespace quadrille
