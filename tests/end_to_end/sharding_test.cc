// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// What data-parallel ranks divide, from the command line: threads and processes, checkpoints of one
// layout in another, and a run that was killed.

#include <signal.h>

#include "end_to_end/fixture.h"

namespace quadrille::test {
namespace {

using testing::HasSubstr;

class ShardedRun : public CommandLineTest {
 protected:
  static std::vector<std::string> layout(const std::string& ranks, const std::string& backend,
                                         int sharding) {
    return {"--ranks", ranks,   "--backend",
            backend,   "--set", "parallel.sharding=" + std::to_string(sharding)};
  }
};

TEST_F(ShardedRun, ThreadsAndProcessesTrainToTheSameBits) {
  train("one");
  const std::vector<double> one = losses_of(path("one"));
  for (const int sharding : {1, 2, 3}) {
    const std::string stage = std::to_string(sharding);
    train("threads" + stage, layout("2", "threads", sharding));
    train("mpi" + stage, layout("2", "mpi", sharding));
    const std::vector<double> losses = losses_of(path("threads" + stage));
    EXPECT_EQ(losses_of(path("mpi" + stage)), losses);
    ASSERT_EQ(losses.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_LT(std::abs(losses[i] - one[i]) / one[i], 1e-5) << stage << " step " << i + 1;
    }
    EXPECT_EQ(quadrille({"checkpoint", "diff", "threads" + stage, "mpi" + stage}).exit_code, 0);
  }
}

TEST_F(ShardedRun, ItsCheckpointsAreListedVerifiedExportedAndTrainedOnInAnotherLayout) {
  train("run", layout("3", "threads", 3));
  EXPECT_EQ(quadrille({"checkpoint", "ls", "run"}).exit_code, 0);
  EXPECT_EQ(quadrille({"checkpoint", "verify", "run"}).exit_code, 0);
  const CommandResult exported = quadrille({"checkpoint", "export", "run", "folder"});
  EXPECT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_TRUE(path_exists(path("folder/model.safetensors")));
  const CommandResult text = quadrille({"generate", "run", "--prompt", "the", "--tokens", "4"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  const std::vector<std::string> longer{"--set", "training.steps=22", "--resume", "required"};
  train("run", longer);  // one rank
  EXPECT_EQ(steps_in("run"), 22U);
  EXPECT_EQ(quadrille({"checkpoint", "verify", "run"}).exit_code, 0);
}

TEST_F(ShardedRun, GoesOnBitwiseAfterAKill) {
  std::vector<std::string> arguments = layout("2", "threads", 2);
  arguments.insert(arguments.end(), {"--set", "training.steps=200"});
  train("whole", arguments);
  std::vector<std::string> launch{"launch", "job.json", "--run-dir", "cut"};
  launch.insert(launch.end(), arguments.begin(), arguments.end());
  const auto command = start(launch);
  ASSERT_TRUE(command->wait_until([this] { return steps_in("cut") >= 8; }));
  command->send(SIGKILL);
  (void)command->wait();
  train("cut", arguments);
  EXPECT_EQ(losses_of(path("cut")), losses_of(path("whole")));
  EXPECT_EQ(quadrille({"checkpoint", "diff", "cut", "whole"}).exit_code, 0);
}

TEST_F(ShardedRun, ThePlanShowsWhatIsDivided) {
  const CommandResult plan =
      quadrille({"plan", "job.json", "--ranks", "2", "--set", "parallel.sharding=2"});
  ASSERT_EQ(plan.exit_code, 0) << plan.errors;
  EXPECT_THAT(plan.output, HasSubstr("sharding=2"));
  EXPECT_THAT(plan.output, HasSubstr("each rank keeps 1/2 of the optimizer's moments and the"));
}

}  // namespace
}  // namespace quadrille::test
