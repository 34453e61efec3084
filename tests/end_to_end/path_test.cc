// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// The whole path of a user: plan, launch, look, evaluate, generate, continue.

#include "end_to_end/fixture.h"

namespace quadrille::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class WholePath : public CommandLineTest {};

TEST_F(WholePath, TrainsWritesTheContractsFilesAndEndsWithASummary) {
  const CommandResult result =
      quadrille({"launch", "job.json", "--run-dir", "run", "--ranks", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, HasSubstr("step 20/20"));
  EXPECT_THAT(result.output, HasSubstr("unigram entropy"));
  EXPECT_THAT(result.output, HasSubstr("Memory of the largest rank"));
  for (const char* file : {"job.json", "plan.json", "metrics.jsonl", "events.jsonl",
                           "logs/rank-0000.log", "logs/rank-0001.log"}) {
    EXPECT_TRUE(path_exists(path("run/") + file)) << file;
  }
  EXPECT_EQ(steps_in("run"), 20U);
  const auto text = read_text_file(path("run/metrics.jsonl"));
  ASSERT_TRUE(text);
  const auto row = parse_json(text->substr(0, text->find('\n')), {});
  ASSERT_TRUE(row);
  for (const char* key : {"step", "loss", "tokens", "seconds", "tokens_per_second", "mfu",
                          "gradient_norm", "learning_rate", "compute_seconds",
                          "communication_seconds", "exposed_communication_seconds",
                          "bubble_seconds", "data_seconds", "other_seconds", "peak_bytes"}) {
    EXPECT_NE(row->find(key), nullptr) << key;
  }
  EXPECT_EQ(row->integer_or("tokens", 0), 12 * 32);
}

TEST_F(WholePath, ThreadsAndMpiTrainToTheSameLossesOverFiftySteps) {
  const std::vector<std::string> fifty{"--set", "training.steps=50", "--set",
                                       "training.evaluate_every=0"};
  train("one", fifty);
  const std::vector<double> one = losses_of(path("one"));
  ASSERT_EQ(one.size(), 50U);
  for (const std::string ranks : {"2", "3", "4"}) {
    for (const std::string backend : {"threads", "mpi"}) {
      const std::string run = backend + ranks;
      std::vector<std::string> more = fifty;
      more.insert(more.end(), {"--ranks", ranks, "--backend", backend});
      train(run, more);
      const std::vector<double> losses = losses_of(path(run));
      ASSERT_EQ(losses.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_LT(std::abs(losses[i] - one[i]) / one[i], 1e-5) << run << " step " << i + 1;
      }
    }
    EXPECT_EQ(losses_of(path("threads" + ranks)), losses_of(path("mpi" + ranks)));
  }
}

TEST_F(WholePath, AFinishedRunGeneratesTheSameTextForTheSameSeed) {
  train("run");
  const std::vector<std::string> write{"generate",  "run",      "--prompt",
                                       "the light", "--tokens", "40"};
  const CommandResult first = quadrille(write);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(first.output.substr(0, 9), "the light");
  EXPECT_EQ(quadrille(write).output, first.output);
  EXPECT_NE(quadrille({"generate", "run", "--prompt", "the light", "--tokens", "40", "--seed", "2"})
                .output,
            first.output);
  // The same prompt from a file and from standard input, which ends at its last byte.
  std::ofstream(path("prompt.txt")) << "the light";
  EXPECT_EQ(quadrille({"generate", "run", "--prompt-file", "prompt.txt", "--tokens", "40"}).output,
            first.output);
  EXPECT_EQ(quadrille({"generate", "run", "--tokens", "40"}, "the light").output, first.output);
  const CommandResult samples =
      quadrille({"generate", "run", "--prompt", "a", "--tokens", "5", "--samples", "3"});
  EXPECT_THAT(samples.output, HasSubstr("--- sample 3 ---"));
}

TEST_F(WholePath, EvaluationAgreesWithTheRunsOwnValidationLoss) {
  train("run", {"--set", "training.evaluate_batches=1000"});
  const CommandResult result = quadrille({"evaluate", "run", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto row = parse_json(result.output, {});
  ASSERT_TRUE(row);
  const auto records = read_metrics(path("run/metrics.jsonl"));
  ASSERT_TRUE(records && records->back().validation_loss);
  EXPECT_NEAR(row->number_or("loss", 0), *records->back().validation_loss, 1e-4);
}

TEST_F(WholePath, AJobThatARunWroteIsAJobAgain) {
  train("run");
  train("again", {});
  const CommandResult second = quadrille({"launch", "run/job.json", "--run-dir", "third"});
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_EQ(losses_of(path("third")), losses_of(path("run")));
  EXPECT_EQ(quadrille({"checkpoint", "diff", "run", "third"}).exit_code, 0);
}

TEST_F(WholePath, CheckpointCommandsListVerifyAndFindADifference) {
  train("run");
  train("other", {"--set", "training.seed=8"});
  const CommandResult list = quadrille({"checkpoint", "ls", "run", "--json"});
  ASSERT_EQ(list.exit_code, 0);
  const auto rows = parse_json(list.output, {});
  ASSERT_TRUE(rows && rows->is_array());
  EXPECT_EQ(rows->elements().size(), 3U);  // every 5 of 20 steps, the newest 3 kept
  EXPECT_EQ(quadrille({"checkpoint", "verify", "run"}).exit_code, 0);
  EXPECT_EQ(quadrille({"checkpoint", "verify", "run/checkpoints/step-00000020"}).exit_code, 0);
  const CommandResult diff = quadrille({"checkpoint", "diff", "run", "other"});
  EXPECT_EQ(diff.exit_code, 1);
  EXPECT_THAT(diff.output, Not(HasSubstr("equal")));
}

TEST_F(WholePath, PrintShowsEverythingAndRunsNothing) {
  const CommandResult result = quadrille({"launch", "job.json", "--ranks", "2", "--print"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("\"learning_rate\": 0.003"));
  EXPECT_THAT(result.output, HasSubstr("QUADRILLE_RUN_DIRECTORY"));
  EXPECT_FALSE(path_exists(path("runs")));
}

TEST_F(WholePath, PlanSaysWhatItDecided) {
  const CommandResult text = quadrille({"plan", "job.json", "--ranks", "2", "--explain"});
  ASSERT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("micro-batch"));
  const CommandResult program = quadrille({"plan", "job.json", "--rank", "0"});
  EXPECT_THAT(program.output, HasSubstr("optimizer_step"));
  const CommandResult json = quadrille({"plan", "job.json", "--json", "-o", "plan.json"});
  ASSERT_EQ(json.exit_code, 0);
  // A link is followed, a device is written to and stays one.
  std::ofstream(path("target.json")) << "{}";
  std::filesystem::create_symlink("target.json", path("link.json"));
  EXPECT_EQ(quadrille({"plan", "job.json", "-o", "link.json"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.json")));
  EXPECT_GT(std::filesystem::file_size(path("target.json")), 2U);
  EXPECT_EQ(quadrille({"plan", "job.json", "-o", "/dev/null"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(parse_json(json.output, {}));
  EXPECT_TRUE(path_exists(path("plan.json")));
}

TEST_F(WholePath, DoctorFindsThatThisMachineCanTrain) {
  const CommandResult result = quadrille({"doctor", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const auto findings = parse_json(result.output, {});
  ASSERT_TRUE(findings);
  EXPECT_TRUE(findings->bool_or("well", false));
}

TEST_F(WholePath, ARunIsGoneOnWithByItsName) {
  train("runs/named", {"--set", "training.steps=10"});
  const CommandResult more = quadrille({"launch", "named", "--set", "training.steps=20"});
  ASSERT_EQ(more.exit_code, 0) << more.output << more.errors;
  EXPECT_EQ(steps_in("runs/named"), 20U);
  EXPECT_EQ(quadrille({"evaluate", "runs/named", "--best"}).exit_code, 0);
}

TEST_F(WholePath, ManualAndCompletionNameEveryCommand) {
  const std::string manual = quadrille({"manual"}).output;
  const std::string completion = quadrille({"completion"}).output;
  for (const std::string command :
       {"plan", "launch", "evaluate", "generate", "checkpoint", "doctor"}) {
    EXPECT_THAT(manual, HasSubstr(".SS " + command));
    EXPECT_THAT(completion, HasSubstr("    " + command + ") words="));
  }
  EXPECT_EQ(run_command({"bash", "-n"}, {}, completion).exit_code, 0);
}

TEST_F(WholePath, EveryCommandHasHelpWithAnExample) {
  for (const std::string command :
       {"plan", "launch", "evaluate", "generate", "checkpoint", "data", "doctor"}) {
    const CommandResult help = quadrille({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.output, HasSubstr("Example")) << command;
  }
  EXPECT_THAT(quadrille({"--version"}).output, HasSubstr("revision"));
}

}  // namespace
}  // namespace quadrille::test
