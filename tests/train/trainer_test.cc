// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/train/trainer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "quadrille/checkpoint/checkpoint.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

using test::losses_of;
using test::run_tiny;
using test::tiny_job;
using test::tiny_llama_job;
using testing::HasSubstr;

class TrainerTest : public testing::Test {
 protected:
  [[nodiscard]] std::string folder(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }

  /// Trains `job` into folder(name) and returns its losses.
  std::vector<double> train_losses(const JobSpec& job, const std::string& name) {
    const auto outcome = run_tiny(job, {.run_directory = folder(name)});
    EXPECT_TRUE(outcome) << outcome.error().to_text();
    return losses_of(folder(name));
  }

  test::TemporaryFolder scratch_;
};

double relative(double a, double b) { return std::abs(a - b) / std::abs(b); }

TEST_F(TrainerTest, LearnsSoThatTheLossFalls) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 40;
  const std::vector<double> losses = train_losses(job, "run");
  ASSERT_EQ(losses.size(), 40U);
  EXPECT_NEAR(losses.front(), std::log(256.0), 0.3);  // an untrained model knows nothing
  EXPECT_LT(losses.back(), 0.7 * losses.front());
}

TEST_F(TrainerTest, AnyNumberOfRanksGivesTheSameLossesOverFiftySteps) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 50;
  job.model.dropout = 0.1;
  const std::vector<double> one = train_losses(job, "one");
  for (const int ranks : {2, 3, 4}) {
    job.parallel.data = ranks;
    const std::vector<double> many = train_losses(job, "ranks" + std::to_string(ranks));
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_LT(relative(many[i], one[i]), 1e-5) << i;
  }
}

TEST_F(TrainerTest, ALlamaLearnsTheSameOnAnyNumberOfRanks) {
  JobSpec job = tiny_llama_job(scratch_.path());
  job.training.steps = 40;
  job.model.dropout = 0.1;
  const std::vector<double> one = train_losses(job, "one");
  ASSERT_EQ(one.size(), 40U);
  EXPECT_NEAR(one.front(), std::log(256.0), 0.3);
  EXPECT_LT(one.back(), 0.7 * one.front());
  for (const int ranks : {2, 3}) {
    job.parallel.data = ranks;
    const std::vector<double> many = train_losses(job, "ranks" + std::to_string(ranks));
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_LT(relative(many[i], one[i]), 1e-5) << i;
  }
}

TEST_F(TrainerTest, AResumedLlamaEqualsAnUninterruptedOneBitForBit) {
  JobSpec job = tiny_llama_job(scratch_.path());
  job.model.tie_embeddings = true;
  job.checkpoint.every = 3;
  const std::vector<double> whole = train_losses(job, "whole");
  ASSERT_EQ(train_losses(job, "cut"), whole);
  std::filesystem::remove_all(folder("cut") + "/checkpoints/step-00000006");
  const auto resumed =
      run_tiny(job, {.run_directory = folder("cut"), .resume = ResumePolicy::kRequired});
  ASSERT_TRUE(resumed) << resumed.error().to_text();
  EXPECT_EQ(losses_of(folder("cut")), whole);
}

TEST_F(TrainerTest, AnyMicroBatchGivesTheSameLosses) {
  JobSpec job = tiny_job(scratch_.path());
  job.model.dropout = 0.1;
  const std::vector<double> one = train_losses(job, "one");
  for (const int micro_batch : {2, 6}) {
    job.training.micro_batch = micro_batch;
    job.parallel.data = 2;
    const std::vector<double> other = train_losses(job, "micro" + std::to_string(micro_batch));
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_LT(relative(other[i], one[i]), 1e-5) << i;
  }
}

TEST_F(TrainerTest, ADeviceWhoseMemoryTheHostCannotTouchTrainsToTheSameBits) {
  JobSpec job = tiny_job(scratch_.path());
  job.parallel.data = 2;
  job.model.dropout = 0.1;
  job.checkpoint.every = 3;
  const std::vector<double> host = train_losses(job, "host");
  const auto outcome = run_tiny(job, {.run_directory = folder("guarded"), .guarded = true});
  ASSERT_TRUE(outcome) << outcome.error().to_text();
  EXPECT_EQ(losses_of(folder("guarded")), host);
}

TEST_F(TrainerTest, BucketSizeChangesNoBit) {
  JobSpec job = tiny_job(scratch_.path());
  job.parallel.data = 3;
  const std::vector<double> small = train_losses(job, "small");
  job.communication.bucket = 64_MiB;
  EXPECT_EQ(train_losses(job, "large"), small);
}

TEST_F(TrainerTest, AResumedRunEqualsAnUninterruptedOneBitForBit) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 10;
  job.checkpoint.every = 5;
  job.parallel.data = 2;
  job.model.dropout = 0.1;
  const std::vector<double> whole = train_losses(job, "whole");

  // A run that lost everything after step 5, as a kill -9 during step 6 would leave it.
  ASSERT_EQ(train_losses(job, "cut").size(), 10U);
  std::filesystem::remove_all(folder("cut") + "/checkpoints/step-00000010");
  const auto resumed =
      run_tiny(job, {.run_directory = folder("cut"), .resume = ResumePolicy::kRequired});
  ASSERT_TRUE(resumed) << resumed.error().to_text();
  EXPECT_EQ(losses_of(folder("cut")), whole);

  const auto a = resolve_checkpoint(folder("whole"));
  const auto b = resolve_checkpoint(folder("cut"));
  ASSERT_TRUE(a && b);
  const auto difference = diff_checkpoints(*a, *b);
  ASSERT_TRUE(difference);
  EXPECT_EQ(*difference, std::nullopt);
}

TEST_F(TrainerTest, ACheckpointOfTwoRanksContinuesOnThree) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 8;
  const std::vector<double> one = train_losses(job, "one");
  job.checkpoint.every = 4;
  job.parallel.data = 2;
  (void)train_losses(job, "moved");
  std::filesystem::remove_all(folder("moved") + "/checkpoints/step-00000008");
  job.parallel.data = 3;
  const auto resumed =
      run_tiny(job, {.run_directory = folder("moved"), .resume = ResumePolicy::kRequired});
  ASSERT_TRUE(resumed) << resumed.error().to_text();
  const std::vector<double> moved = losses_of(folder("moved"));
  ASSERT_EQ(moved.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_LT(relative(moved[i], one[i]), 1e-5) << i;
}

class StopFromTheStart : public StopSignal {
 public:
  [[nodiscard]] bool stop_requested() const override { return true; }
  [[nodiscard]] bool abort_requested() const override { return false; }
};

TEST_F(TrainerTest, AStopRequestSavesAtTheNextStepBoundary) {
  JobSpec job = tiny_job(scratch_.path());
  job.parallel.data = 2;
  const StopFromTheStart stop;
  const auto outcome = run_tiny(job, {.run_directory = folder("run"), .stop = &stop});
  ASSERT_TRUE(outcome) << outcome.error().to_text();
  EXPECT_TRUE(outcome->stopped);
  EXPECT_EQ(outcome->steps_done, 1);
  const auto checkpoint = resolve_checkpoint(folder("run"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().to_text();
  EXPECT_EQ(checkpoint->manifest().state.step, 1);
}

TEST_F(TrainerTest, KeepsTheBestCheckpointAndEndsWhenPatienceIsOver) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 400;
  job.training.learning_rate = 0.1;  // far too much: the loss soon gets worse again
  job.training.schedule = LearningRateSchedule::kConstant;
  job.training.evaluate_every = 2;
  job.training.patience = 3;
  job.checkpoint.keep = 1;
  const auto outcome = run_tiny(job, {.run_directory = folder("run")});
  ASSERT_TRUE(outcome) << outcome.error().to_text();
  EXPECT_TRUE(outcome->ended_early);
  EXPECT_FALSE(outcome->stopped);
  const auto records = read_metrics(folder("run") + "/metrics.jsonl");
  ASSERT_TRUE(records);
  std::int64_t best_step = 0;
  double best = std::numeric_limits<double>::infinity();
  for (const StepRecord& record : *records) {
    if (record.validation_loss && *record.validation_loss < best) {
      best = *record.validation_loss;
      best_step = record.step;
    }
  }
  EXPECT_EQ(outcome->steps_done, best_step + 3 * 2);  // three evaluations later, every second step
  const auto kept = resolve_best_checkpoint(folder("run"));
  ASSERT_TRUE(kept) << kept.error().to_text();
  EXPECT_EQ(kept->manifest().state.step, best_step);
  // A second launch finds that patience is over and trains no more.
  const auto again = run_tiny(job, {.run_directory = folder("run"), .resume = ResumePolicy::kAuto});
  ASSERT_TRUE(again) << again.error().to_text();
  EXPECT_EQ(again->steps_done, outcome->steps_done);
}

TEST_F(TrainerTest, ACheckpointOfAnotherModelIsRefusedByName) {
  JobSpec job = tiny_job(scratch_.path());
  (void)train_losses(job, "run");
  job.model.ffn = 48;
  const auto outcome =
      run_tiny(job, {.run_directory = folder("run"), .resume = ResumePolicy::kAuto});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kInvalid);
  EXPECT_THAT(outcome.error().message, HasSubstr("model.ffn is 96 in the checkpoint and 48"));
}

TEST_F(TrainerTest, ARequiredCheckpointThatIsMissingFailsTheRun) {
  const auto outcome = run_tiny(tiny_job(scratch_.path()), {.run_directory = folder("run"),
                                                            .resume = ResumePolicy::kRequired});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kNotFound);
}

TEST_F(TrainerTest, ANonFiniteLossNamesATensorAndKeepsTheLastGoodState) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.learning_rate = 1e30;  // the first update throws the parameters out of range
  job.training.warmup_steps = 0;
  job.training.clip = 0;
  job.parallel.data = 2;
  const auto outcome = run_tiny(job, {.run_directory = folder("run")});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kAborted);
  EXPECT_THAT(outcome.error().message, HasSubstr("first bad tensor: "));
  EXPECT_THAT(outcome.error().message, HasSubstr("kept"));
}

TEST_F(TrainerTest, StepPartsSumToTheStepAndEveryByteIsTagged) {
  JobSpec job = tiny_job(scratch_.path());
  job.parallel.data = 2;
  (void)train_losses(job, "run");
  const auto records = read_metrics(folder("run") + "/metrics.jsonl");
  ASSERT_TRUE(records);
  for (const StepRecord& record : *records) {
    const double parts = record.compute.count() + record.exposed_communication.count() +
                         record.bubble.count() + record.data.count() + record.other.count();
    EXPECT_NEAR(parts, record.seconds.count(), 1e-9);
    EXPECT_GE(record.other.count(), -1e-9);
    EXPECT_GT(record.peak_by_tag.at("parameter").count(), 0);
    EXPECT_EQ(record.validation_loss.has_value(), record.step % 3 == 0);
  }
}

TEST_F(TrainerTest, LeasesNothingOnceTheRunIsUnderWay) {
  // The peak of every tag is reached by the first step already.
  (void)train_losses(tiny_job(scratch_.path()), "run");
  const auto records = read_metrics(folder("run") + "/metrics.jsonl");
  ASSERT_TRUE(records);
  EXPECT_EQ(records->front().peak, records->back().peak);
}

}  // namespace
}  // namespace quadrille
