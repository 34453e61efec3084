// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Requests that are wrong: a clear error, exit code 2, before any rank starts, nothing left behind.

#include <unistd.h>

#include "end_to_end/fixture.h"

namespace quadrille::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BadInput : public CommandLineTest {
 protected:
  /// Launches and expects exit code 2, the words, and no run directory.
  void expect_refused(std::vector<std::string> more, const testing::Matcher<std::string>& words) {
    std::vector<std::string> arguments{"launch", "job.json", "--run-dir", "run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = quadrille(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output << result.errors;
    EXPECT_THAT(result.errors, words);
    EXPECT_FALSE(path_exists(path("run")));
  }
};

TEST_F(BadInput, NamesEveryMistakeOfAJobAtOnce) {
  write_job("job.json", R"({
  "model": {"layers": 2, "hiden": 32, "heads": 4, "context": 32},
  "data": {"train": "text.txt"},
  "training": {"sequence": 64, "global_batch": "many", "steps": 20}
})");
  expect_refused({}, AllOf(HasSubstr("job.json:2"), HasSubstr("hiden"), HasSubstr("hidden"),
                           HasSubstr("job.json:4"), HasSubstr("global_batch")));
}

TEST_F(BadInput, StopsAtTheFirstSyntaxError) {
  write_job("job.json", "{\n  \"model\": {,}\n}");
  expect_refused({}, HasSubstr("job.json:2"));
}

TEST_F(BadInput, NamesAnOverrideThatDoesNotExist) {
  expect_refused({"--set", "training.stepz=3"}, AllOf(HasSubstr("stepz"), HasSubstr("steps")));
}

TEST_F(BadInput, MissingOrEmptyDataIsFoundBeforeTheRun) {
  expect_refused({"--set", "data.train=\"absent.txt\""}, HasSubstr("absent.txt"));
  std::ofstream(path("empty.txt")).close();
  expect_refused({"--set", "data.train=\"empty.txt\""}, HasSubstr("empty.txt"));
  std::ofstream(path("short.txt")) << "too short";
  expect_refused({"--set", "data.train=\"short.txt\""},
                 AllOf(HasSubstr("9 tokens"), HasSubstr("at least 385")));
}

TEST_F(BadInput, MoreRanksThanSequencesAreRefused) {
  expect_refused({"--ranks", "13"}, HasSubstr("13"));
}

TEST_F(BadInput, AbsurdSizesAreRefusedWithoutAnAllocation) {
  expect_refused({"--set", "model.layers=1000000000000"}, HasSubstr("model.layers"));
  expect_refused({"--set", "model.hidden=4000000"}, HasSubstr("hidden"));
}

TEST_F(BadInput, TooLittleMemoryIsSaidWithTheAmountBeforeTheFirstStep) {
  expect_refused({"--set", "memory.limits.host=100000"}, HasSubstr("memory"));
}

TEST_F(BadInput, AnUnwritableDirectoryIsNamed) {
  std::ofstream(path("file")).close();
  const CommandResult result = quadrille({"launch", "job.json", "--run-dir", "file/run"});
  EXPECT_EQ(result.exit_code, result.exit_code == 1 ? 1 : 2);
  EXPECT_THAT(result.errors, HasSubstr("file"));
}

TEST_F(BadInput, AMissingJobRunOrCheckpointIsNamed) {
  EXPECT_THAT(quadrille({"launch", "nowhere.json"}).errors, HasSubstr("nowhere.json"));
  for (const std::string command : {"generate", "evaluate"}) {
    const CommandResult result = quadrille({command, "nowhere"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, HasSubstr("nowhere"));
  }
  EXPECT_EQ(quadrille({"checkpoint", "ls", "nowhere"}).exit_code, 2);
}

TEST_F(BadInput, ACheckpointOfAnotherModelIsRefused) {
  train("run", {"--set", "training.steps=5"});
  const CommandResult other = quadrille({"launch", "job.json", "--run-dir", "run", "--set",
                                         "training.steps=6", "--set", "model.hidden=64"});
  EXPECT_EQ(other.exit_code, 2) << other.output << other.errors;
  EXPECT_THAT(other.errors, HasSubstr("model.hidden"));
}

TEST_F(BadInput, ResumeNeverDoesNotTrainOverCheckpoints) {
  train("run", {"--set", "training.steps=5"});
  const CommandResult again =
      quadrille({"launch", "job.json", "--run-dir", "run", "--resume", "never"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.errors, HasSubstr("checkpoints"));
}

TEST_F(BadInput, ANonFiniteLossFailsTheRunAndKeepsTheLastGoodState) {
  // Decay of 10 at a rate of 10 multiplies every matrix by -99 a step: 20 steps leave fp32.
  const CommandResult result = quadrille(
      {"launch", "job.json", "--run-dir", "run", "--ranks", "2", "--set",
       "training.learning_rate=10", "--set", "training.weight_decay=10", "--set",
       "training.warmup_steps=0", "--set", "training.clip=0", "--set", "training.steps=60"});
  EXPECT_EQ(result.exit_code, 1) << result.output << result.errors;
  EXPECT_THAT(result.errors, AllOf(HasSubstr("not finite"), HasSubstr("kept")));
  EXPECT_EQ(quadrille({"checkpoint", "verify", "run"}).exit_code, 0);
}

TEST_F(BadInput, UnknownCommandsAndFlagsExitWith2) {
  EXPECT_EQ(quadrille({"lunch", "job.json"}).exit_code, 2);
  EXPECT_EQ(quadrille({"launch", "job.json", "--rank", "2"}).exit_code, 2);
  EXPECT_EQ(quadrille({"launch", "job.json", "--hostfile", "nowhere"}).exit_code, 2);
  EXPECT_EQ(quadrille({}).exit_code, 2);
  const CommandResult precision = quadrille({"generate", "run", "--precision", "fp16"});
  EXPECT_EQ(precision.exit_code, 2);
  EXPECT_THAT(precision.errors, HasSubstr("fp16 not in {fp32,bf16}"));
}

TEST_F(BadInput, VerifyRefusesMoreRanksThanItHasThreadsFor) {
  write_job("job.json", R"({
  "model": {"layers": 2, "hidden": 32, "heads": 4, "context": 32},
  "data": {"train": "text.txt"},
  "training": {"sequence": 32, "global_batch": 4, "steps": 20}
})");
  const CommandResult result =
      quadrille({"verify", "job.json", "--layout", "data=4000", "--layout", "data=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("4000 ranks"), HasSubstr("at most 64")));
}

}  // namespace
}  // namespace quadrille::test
