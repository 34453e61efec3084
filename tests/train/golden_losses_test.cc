// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Fifty losses of small models against those that tests/golden/losses.json keeps from an earlier
// version: a kernel made faster may round differently, and nothing else. Where training is meant to
// change, QUADRILLE_WRITE_GOLDENS=1 in the environment of this test writes the file anew.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "quadrille/base/file.h"
#include "quadrille/base/json.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

constexpr std::int64_t kSteps = 50;
/// Of a loss, after fifty steps in which rounding differences grow.
constexpr double kTolerance = 2e-5;
/// The same where factors are rounded to bf16: a last bit of fp32 can move one of 8 bits.
constexpr double kBf16Tolerance = 2e-3;

const std::string kFile = QUADRILLE_GOLDEN_LOSSES;

struct Subject {
  std::string name;
  JobSpec job;
  double tolerance = kTolerance;
};

std::vector<Subject> subjects(const std::string& folder) {
  JobSpec gpt2 = test::tiny_job(folder);
  gpt2.training.steps = kSteps;
  gpt2.training.micro_batch = gpt2.training.global_batch;
  gpt2.training.evaluate_every = kSteps;
  gpt2.model.dropout = 0.1;
  JobSpec llama = gpt2;
  llama.model.family = ModelFamily::kLlama;
  llama.model.heads = 4;
  llama.model.kv_heads = 2;
  llama.model.head_dimension = 10;
  llama.model.ffn = 40;
  llama.model.tie_embeddings = false;
  llama.model.bias = false;
  llama.model.dropout = 0;
  JobSpec bf16 = gpt2;
  bf16.training.precision = Precision::kBf16;
  return {{"gpt2", gpt2}, {"llama", llama}, {"gpt2 bf16", bf16, kBf16Tolerance}};
}

class GoldenLosses : public ::testing::Test {
 protected:
  std::vector<double> train(const JobSpec& job, int threads) {
    const std::string run = scratch_.path() + "/run" + std::to_string(runs_++);
    const auto outcome = test::run_tiny(job, {.run_directory = run, .threads = threads});
    EXPECT_TRUE(outcome) << outcome.error().to_text();
    return test::losses_of(run);
  }

  test::TemporaryFolder scratch_;
  int runs_ = 0;
};

std::map<std::string, std::vector<double>> read_goldens() {
  std::map<std::string, std::vector<double>> goldens;
  const Result<Json> json = read_json_file(kFile);
  EXPECT_TRUE(json) << json.error().to_text();
  for (const auto& [name, losses] : json->members()) {
    for (const Json& loss : losses.elements()) goldens[name].push_back(loss.as_number());
  }
  return goldens;
}

TEST_F(GoldenLosses, AreThoseOfEarlierVersionsWithOneTwoAndFourThreads) {
  if (std::getenv("QUADRILLE_WRITE_GOLDENS") != nullptr) {
    Json all = Json::object();
    for (const Subject& subject : subjects(scratch_.path())) {
      Json losses = Json::array();
      for (const double loss : train(subject.job, 1)) losses.push(loss);
      all.set(subject.name, std::move(losses));
    }
    ASSERT_TRUE(write_file_atomically(kFile, write_json(all) + "\n"));
  }
  const auto goldens = read_goldens();
  for (const Subject& subject : subjects(scratch_.path())) {
    SCOPED_TRACE(subject.name);
    ASSERT_TRUE(goldens.contains(subject.name));
    const std::vector<double>& expected = goldens.at(subject.name);
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(kSteps));
    for (const int threads : {1, 2, 4}) {
      const std::vector<double> losses = train(subject.job, threads);
      ASSERT_EQ(losses.size(), expected.size());
      for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i] / expected[i], 1, subject.tolerance)
            << "step " << i + 1 << " with " << threads << " threads";
      }
    }
  }
}

TEST_F(GoldenLosses, AreTheSameBitsEachTimeWithTheSameThreads) {
  const JobSpec job = subjects(scratch_.path()).front().job;
  for (const int threads : {1, 2, 4})
    EXPECT_EQ(train(job, threads), train(job, threads)) << threads;
}

}  // namespace
}  // namespace quadrille
