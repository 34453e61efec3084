// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Runs whose matrix products are bf16.

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/train/trainer.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

using test::losses_of;
using test::run_tiny;
using test::tiny_job;

class PrecisionTest : public testing::Test {
 protected:
  [[nodiscard]] std::string folder(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }
  [[nodiscard]] JobSpec bf16_job() const {
    JobSpec job = tiny_job(scratch_.path());
    job.training.precision = Precision::kBf16;
    return job;
  }
  std::vector<double> train_losses(const JobSpec& job, const std::string& name) {
    const auto outcome = run_tiny(job, {.run_directory = folder(name)});
    EXPECT_TRUE(outcome) << outcome.error().to_text();
    return losses_of(folder(name));
  }

  test::TemporaryFolder scratch_;
};

/// The largest |a - b| / b of a step.
double most_apart(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]) / b[i]);
  return most;
}

/// With the same weights a loss differs by the rounding of its products: 2^-9 of a factor on
/// average, which partly cancels over a batch's tokens. Over the steps the weights part as well,
/// by steps that are taken at gradients off by about 1%; both runs descend into the same valley,
/// so the losses do not drift: 0.13% apart at most when this was written, the bound leaves a factor
/// of four.
TEST_F(PrecisionTest, LossesFollowFp32WithinHalfAPercentOverTwoHundredSteps) {
  JobSpec job = tiny_job(scratch_.path());
  job.training.steps = 200;
  job.training.evaluate_every = 0;
  const std::vector<double> fp32 = train_losses(job, "fp32");
  job.training.precision = Precision::kBf16;
  const std::vector<double> bf16 = train_losses(job, "bf16");
  EXPECT_LT(fp32.back(), 0.5 * fp32.front());
  EXPECT_LT(most_apart(bf16, fp32), 0.005);
  EXPECT_GT(most_apart(bf16, fp32), 1e-6) << "no product was rounded";
}

/// Ranks cut the sums of gradients differently, in fp32. A weight that lies near the middle between
/// two bf16 numbers can then be rounded to the other one, which moves it by 2^-7: rare, and no more
/// than the rounding itself does (0.003% of the loss when this was written).
TEST_F(PrecisionTest, AnyNumberOfRanksGivesTheSameLossesWithinATwentiethOfAPercent) {
  JobSpec job = bf16_job();
  job.training.steps = 50;
  job.training.evaluate_every = 0;
  job.model.dropout = 0.1;
  const std::vector<double> one = train_losses(job, "one");
  for (const int ranks : {2, 3}) {
    job.parallel.data = ranks;
    const std::vector<double> many = train_losses(job, "ranks" + std::to_string(ranks));
    EXPECT_LT(most_apart(many, one), 5e-4) << ranks;
    // Nothing is summed in bf16: the first step differs by fp32's rounding alone.
    EXPECT_LT(std::abs(many[0] - one[0]) / one[0], 1e-6) << ranks;
  }
}

TEST_F(PrecisionTest, AResumedRunEqualsAnUninterruptedOneBitForBit) {
  JobSpec job = bf16_job();
  job.training.steps = 6;
  job.checkpoint.every = 3;
  job.parallel.data = 2;
  job.model.dropout = 0.1;
  const std::vector<double> whole = train_losses(job, "whole");
  ASSERT_EQ(train_losses(job, "cut").size(), 6U);
  std::filesystem::remove_all(folder("cut") + "/checkpoints/step-00000006");
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

TEST_F(PrecisionTest, CheckpointsHoldAllDigitsOfTheWeights) {
  (void)train_losses(bf16_job(), "run");
  const auto checkpoint = resolve_checkpoint(folder("run"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().to_text();
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  const auto pool = Pool::create({device.get(), Bytes(0), "test"});
  const auto lease = (*pool)->lease(Bytes(72 * 24 * 4), MemoryTag::kWorkspace, "weights");
  const TensorView weights = lease->view(DType::kF32, {72, 24});
  ASSERT_TRUE(checkpoint->load("h.0.attn.c_attn.weight", *stream, weights));
  const auto values = read_all<float>(*stream, weights);
  ASSERT_TRUE(values);
  const auto beyond_bf16 = std::count_if(values->begin(), values->end(), [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0xFFFFU) != 0;
  });
  EXPECT_GT(beyond_bf16, 72 * 24 / 2);
}

TEST_F(PrecisionTest, TheRunSaysOnceHowItsProductsAreMultiplied) {
  JobSpec job = bf16_job();
  job.parallel.data = 2;
  (void)train_losses(job, "run");
  std::ifstream events(folder("run") + "/events.jsonl");
  int found = 0;
  for (std::string line; std::getline(events, line);) {
    if (line.find("\"products\"") == std::string::npos) continue;
    ++found;
    EXPECT_THAT(line, testing::HasSubstr("bf16"));
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace quadrille
