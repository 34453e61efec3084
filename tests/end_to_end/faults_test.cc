// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Signals, killed processes, damaged checkpoints, full disks: nothing is lost and nothing hangs.

#include <signal.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "end_to_end/fixture.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille::test {
namespace {

using testing::HasSubstr;

class Faults : public CommandLineTest {
 protected:
  static constexpr const char* kSteps = "training.steps=60";

  [[nodiscard]] std::vector<std::string> arguments(const std::string& run,
                                                   const std::string& backend,
                                                   std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"launch", "job.json",  "--run-dir", path(run), "--ranks",
                                 "2",      "--backend", backend,     "--set",   kSteps};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// The losses of an uninterrupted run of the same job.
  std::vector<double> whole(const std::string& backend) {
    const CommandResult result = quadrille(arguments("whole", backend));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return losses_of(path("whole"));
  }

  /// Resumes `run` to its end and expects the bits of the uninterrupted one.
  void expect_resumes_bitwise(const std::string& run, const std::string& backend,
                              const std::vector<double>& expected) {
    const CommandResult resumed = quadrille(arguments(run, backend));
    ASSERT_EQ(resumed.exit_code, 0) << resumed.output << resumed.errors;
    EXPECT_EQ(losses_of(path(run)), expected);
    EXPECT_EQ(quadrille({"checkpoint", "diff", "whole", run}).exit_code, 0);
  }

  /// Waits until the run has trained `steps` steps.
  [[nodiscard]] bool reach(Command& command, const std::string& run, std::size_t steps) const {
    return command.wait_until([&] { return steps_in(run) >= steps; });
  }

  /// Rank processes of the run, by the environment's run directory in /proc.
  [[nodiscard]] static std::vector<int> rank_processes(int launcher) {
    std::vector<int> found;
    for (const int pid : processes_with(std::string(kProgram) + std::string(1, '\0') + "rank")) {
      if (descends_from(pid, launcher) && !is_mpirun(pid)) found.push_back(pid);
    }
    return found;
  }

  [[nodiscard]] static bool is_mpirun(int pid) {
    const auto name = read_text_file("/proc/" + std::to_string(pid) + "/comm");
    return name && name->find("mpirun") != std::string::npos;
  }

  [[nodiscard]] static bool descends_from(int pid, int ancestor) {
    while (pid > 1) {
      if (pid == ancestor) return true;
      std::ifstream status("/proc/" + std::to_string(pid) + "/status");
      std::string line;
      int parent = 0;
      while (std::getline(status, line)) {
        if (line.rfind("PPid:", 0) == 0) parent = std::stoi(line.substr(5));
      }
      pid = parent;
    }
    return false;
  }
};

TEST_F(Faults, ATerminatedRunSavesExits75AndResumesBitForBit) {
  for (const std::string backend : {"threads", "mpi"}) {
    std::filesystem::remove_all(path("whole"));
    const std::vector<double> expected = whole(backend);
    const std::string run = "stopped-" + backend;
    const auto command = start(arguments(run, backend));
    ASSERT_TRUE(reach(*command, run, 3));
    command->send(SIGTERM);
    const CommandResult result = command->wait();
    ASSERT_EQ(result.exit_code, 75) << result.output << result.errors;
    EXPECT_LT(steps_in(run), 60U);
    expect_resumes_bitwise(run, backend, expected);
  }
}

TEST_F(Faults, ASecondSignalStopsAtOnceWith130) {
  // A step of several seconds, so that the first signal's save cannot have come to its end.
  const auto command = start(arguments("run", "threads",
                                       {"--set", "model.hidden=384", "--set", "model.layers=6",
                                        "--set", "training.global_batch=480"}));
  ASSERT_TRUE(command->wait_until([&] { return path_exists(path("run/logs/rank-0001.log")); }));
  command->send(SIGINT);
  ASSERT_TRUE(
      command->wait_until([&] { return command->output().find("stopping") != std::string::npos; }));
  command->send(SIGINT);
  EXPECT_EQ(command->wait().exit_code, 130);
}

TEST_F(Faults, AKilledRankIsNamedAndTheRunResumesBitForBit) {
  for (const std::string backend : {"threads", "mpi"}) {
    std::filesystem::remove_all(path("whole"));
    const std::vector<double> expected = whole(backend);
    const std::string run = "killed-" + backend;
    const auto command = start(arguments(run, backend));
    ASSERT_TRUE(reach(*command, run, 12));
    const std::vector<int> ranks = rank_processes(command->pid());
    ASSERT_FALSE(ranks.empty());
    const Seconds begin = monotonic_now();
    ::kill(ranks.back(), SIGKILL);
    const CommandResult result = command->wait();
    EXPECT_EQ(result.exit_code, 3) << result.output << result.errors;
    EXPECT_LT(monotonic_now() - begin, Seconds(10));  // three seconds on an idle machine
    EXPECT_THAT(result.errors, HasSubstr("rank"));
    expect_resumes_bitwise(run, backend, expected);
  }
}

TEST_F(Faults, AKilledMpirunOrLauncherLeavesNoProcessAndAResumableRun) {
  const std::vector<double> expected = whole("mpi");
  for (const bool kill_launcher : {false, true}) {
    const std::string run = kill_launcher ? "launcher" : "mpirun";
    const auto command = start(arguments(run, "mpi"));
    ASSERT_TRUE(reach(*command, run, 12));
    const std::vector<int> ranks = rank_processes(command->pid());
    ASSERT_EQ(ranks.size(), 2U);
    if (kill_launcher) {
      command->send(SIGKILL);
    } else {
      for (const int pid : processes_with("mpirun")) {
        if (descends_from(pid, command->pid()) && is_mpirun(pid)) ::kill(pid, SIGKILL);
      }
    }
    const CommandResult result = command->wait();
    EXPECT_NE(result.exit_code, 0);
    const Seconds deadline = monotonic_now() + Seconds(10);
    const auto is_alive = [](int pid) {
      return path_exists("/proc/" + std::to_string(pid) + "/exe");
    };
    while (monotonic_now() < deadline && (is_alive(ranks[0]) || is_alive(ranks[1]))) {
      ::usleep(20000);
    }
    EXPECT_FALSE(is_alive(ranks[0]) || is_alive(ranks[1])) << run;
    expect_resumes_bitwise(run, "mpi", expected);
  }
}

TEST_F(Faults, ManyKillsAtRandomMomentsStillEndInTheSameBits) {
  const std::vector<double> expected = whole("threads");
  std::random_device device;
  const unsigned seed = device();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  // Saving after every step makes it likely that some kills hit a save.
  const std::vector<std::string> often{"--set", "checkpoint.every=1"};
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto command = start(arguments("run", "threads", often));
    std::uniform_int_distribution<int> milliseconds(150, 900);
    (void)command->wait_until([] { return false; }, Seconds(milliseconds(random) / 1000.0));
    command->send(SIGKILL);
    (void)command->wait();
  }
  const CommandResult resumed = quadrille(arguments("run", "threads", often));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output << resumed.errors;
  EXPECT_EQ(losses_of(path("run")), expected);
}

TEST_F(Faults, ADamagedCheckpointIsSkippedForTheNewestValidOne) {
  const std::vector<double> expected = whole("threads");
  ASSERT_EQ(quadrille(arguments("run", "threads")).exit_code, 0);
  const auto list = list_checkpoints(path("run"));
  ASSERT_TRUE(list);
  ASSERT_GE(list->size(), 2U);
  // Cut a shard of the newest one short.
  for (const auto& entry : std::filesystem::directory_iterator(list->back().path)) {
    if (entry.path().extension() == ".safetensors") {
      std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 4);
    }
  }
  EXPECT_EQ(quadrille({"checkpoint", "verify", "run"}).exit_code, 1);
  const CommandResult evaluated = quadrille({"evaluate", "run"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  EXPECT_THAT(evaluated.errors, HasSubstr("passed over a damaged checkpoint"));
  expect_resumes_bitwise("run", "threads", expected);
  const auto events = read_text_file(path("run/events.jsonl"));
  ASSERT_TRUE(events);
  EXPECT_THAT(*events, HasSubstr("checkpoint_skipped"));
}

TEST_F(Faults, WhereEveryCheckpointIsDamagedARunIsNotTrainedOverThem) {
  train("run");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("run/checkpoints"))) {
    if (entry.path().extension() == ".safetensors") std::filesystem::resize_file(entry.path(), 100);
  }
  const auto before = list_checkpoints(path("run"));
  const CommandResult again = quadrille({"launch", "job.json", "--run-dir", "run"});
  EXPECT_EQ(again.exit_code, 1) << again.output << again.errors;
  EXPECT_THAT(again.errors, HasSubstr("can be read"));
  const auto after = list_checkpoints(path("run"));
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->size(), before->size());
}

TEST_F(Faults, TwoRunsCannotSaveIntoOneDirectory) {
  const std::vector<std::string> shared{"--set", "checkpoint.directory=\"" + path("shared") + "\"",
                                        "--set", "training.steps=100000"};
  const auto command = start(arguments("a", "threads", shared));
  ASSERT_TRUE(reach(*command, "a", 1));
  const CommandResult second = quadrille(arguments("b", "threads", shared));
  EXPECT_EQ(second.exit_code, 2) << second.output << second.errors;
  EXPECT_THAT(second.errors, HasSubstr("shared"));
}

TEST_F(Faults, AReaderOfTheProgressThatGoesAwayDoesNotEndTheRun) {
  const std::string launch =
      kProgram + " launch job.json --run-dir run | head -1; exit ${PIPESTATUS[0]}";
  const CommandResult result = run_command({"bash", "-c", launch}, scratch_.path());
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(steps_in("run"), 20U);
}

TEST_F(Faults, ASecondLaunchIntoOneRunDirectoryIsRefused) {
  const auto command = start(arguments("run", "threads", {"--set", "training.steps=100000"}));
  ASSERT_TRUE(reach(*command, "run", 1));
  const CommandResult second = quadrille(arguments("run", "threads"));
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.errors, HasSubstr(std::to_string(command->pid())));
}

TEST_F(Faults, AFullDiskFailsTheSaveAndNotTheRun) {
  const std::string disk = path("disk");
  std::filesystem::create_directory(disk);
  // Room for the first checkpoints; a file then fills what is left.
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=8m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs needs root: " << std::strerror(errno);
  }
  const std::vector<std::string> there{"--set", "checkpoint.directory=\"" + disk + "/checkpoints\"",
                                       "--set", "training.steps=400"};
  const auto command = start(arguments("run", "threads", there));
  const bool saved = command->wait_until([&] {
    const auto list = list_checkpoints(disk + "/checkpoints");
    return list && !list->empty();
  });
  {
    std::ofstream fill(disk + "/fill", std::ios::binary);
    const std::string block(1 << 16, 'x');
    while (fill.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  const bool failed = command->wait_until([&] {
    const auto events = read_text_file(path("run/events.jsonl"));
    return events && events->find("checkpoint_failed") != std::string::npos;
  });
  const std::size_t steps = steps_in("run");
  const bool goes_on = command->wait_until([&] { return steps_in("run") > steps; });
  std::filesystem::remove(disk + "/fill");
  const CommandResult result = command->wait();
  const auto sound = resolve_checkpoint(disk + "/checkpoints");
  const bool is_sound = sound && sound->verify();
  ::umount(disk.c_str());
  EXPECT_TRUE(saved && failed && goes_on) << saved << failed << goes_on << result.errors;
  EXPECT_TRUE(is_sound);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

}  // namespace
}  // namespace quadrille::test
