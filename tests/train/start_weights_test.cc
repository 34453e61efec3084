// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <map>
#include <string>

#include "quadrille/checkpoint/hugging_face.h"
#include "quadrille/train/trainer.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

using test::run_tiny;
using test::tiny_job;
using testing::HasSubstr;

/// A run of a few steps whose weights others start from.
class StartWeights : public testing::Test {
 protected:
  void SetUp() override {
    job_ = tiny_job(scratch_.path());
    const auto first = run_tiny(job_, {.run_directory = folder("first")});
    ASSERT_TRUE(first) << first.error().to_text();
  }
  [[nodiscard]] std::string folder(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }
  /// A run over two ranks from `weights` whose one step changes nothing.
  Result<TrainingOutcome> run_from(const std::string& weights, const std::string& name) {
    JobSpec job = job_;
    job.model.weights = weights;
    job.parallel.data = 2;
    job.training.steps = 1;
    job.training.warmup_steps = 0;
    job.training.learning_rate = 0;
    return run_tiny(job, {.run_directory = folder(name)});
  }
  [[nodiscard]] std::map<std::string, std::string> parameters_of(const std::string& name) const {
    std::map<std::string, std::string> checksums;
    const auto checkpoint = resolve_checkpoint(folder(name));
    EXPECT_TRUE(checkpoint) << checkpoint.error().to_text();
    for (const ManifestTensor& tensor : checkpoint->manifest().tensors) {
      if (!tensor.name.starts_with("optimizer."))
        checksums[tensor.name] = tensor.parts.at(0).checksum;
    }
    return checksums;
  }

  test::TemporaryFolder scratch_;
  JobSpec job_;
};

TEST_F(StartWeights, ARunThatChangesNothingEndsWithTheWeightsItStartedFrom) {
  const auto exported =
      export_hugging_face(resolve_checkpoint(folder("first")).value(), {folder("exported")});
  ASSERT_TRUE(exported) << exported.error().to_text();
  for (const std::string source : {"first", "exported"}) {
    const auto outcome = run_from(folder(source), "from " + source);
    ASSERT_TRUE(outcome) << outcome.error().to_text();
    EXPECT_EQ(outcome->steps_done, 1);
    EXPECT_EQ(parameters_of("from " + source), parameters_of("first")) << source;
  }
}

TEST_F(StartWeights, FreshWeightsAreOthers) {
  const auto outcome = run_from("", "fresh");
  ASSERT_TRUE(outcome) << outcome.error().to_text();
  EXPECT_NE(parameters_of("fresh"), parameters_of("first"));
}

TEST_F(StartWeights, WeightsOfAnotherModelAreRefusedByAllRanks) {
  job_.model.ffn = 48;
  const auto outcome = run_from(folder("first"), "other");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kInvalid);
  EXPECT_THAT(outcome.error().message, HasSubstr("h.0.mlp.c_fc.weight"));
  const auto gone = run_from(folder("gone"), "gone run");
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error().message, HasSubstr("does not exist"));
}

TEST_F(StartWeights, ARunGoesOnFromItsCheckpointAndNotFromItsFirstWeights) {
  job_.model.weights = folder("first");
  job_.training.steps = 2;
  ASSERT_TRUE(run_tiny(job_, {.run_directory = folder("long")}));
  job_.model.weights = folder("moved away");
  job_.training.steps = 3;
  const auto resumed =
      run_tiny(job_, {.run_directory = folder("long"), .resume = ResumePolicy::kRequired});
  ASSERT_TRUE(resumed) << resumed.error().to_text();
  EXPECT_EQ(resumed->steps_done, 3);
}

}  // namespace
}  // namespace quadrille
