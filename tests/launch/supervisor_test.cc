// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Real processes that end in every way a rank can. Each test names a mode of rank_program.cc.

#include "quadrille/launch/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include "launch/scratch_folder.h"
#include "quadrille/base/file.h"
#include "quadrille/observe/flight_recorder.h"
#include "support/command.h"

namespace quadrille {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// Both backends run the same cases.
class Supervisor : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] LaunchRequest request(std::vector<std::string> arguments, int ranks = 2) const {
    LaunchRequest made;
    made.paths = {scratch_.path() + "/run"};
    made.run_id = "test-" + std::to_string(::getpid());
    made.ranks = ranks;
    made.backend = GetParam();
    arguments.insert(arguments.begin() + 1, std::to_string(ranks));
    arguments.resize(std::max<std::size_t>(arguments.size(), 3));
    arguments.push_back(scratch_.path());  // to be found by
    made.command = {QUADRILLE_RANK_PROGRAM};
    made.command.insert(made.command.end(), arguments.begin(), arguments.end());
    return made;
  }
  [[nodiscard]] static bool is_mpi() { return std::string(GetParam()) == "mpi"; }
  /// Processes of this test's run, mpirun among them.
  [[nodiscard]] std::vector<int> processes_alive() const {
    return test::processes_with(scratch_.path());
  }
  [[nodiscard]] std::string saved(int rank) const {
    return scratch_.path() + "/run/saved-" + std::to_string(rank);
  }

  test::ScratchFolder scratch_;
};

LaunchResult run(const LaunchRequest& request, const SupervisorHooks& hooks = {}) {
  const auto result = supervise(request, hooks);
  EXPECT_TRUE(result.has_value()) << result.error().to_text();
  return result ? *result : LaunchResult{};
}

TEST_P(Supervisor, ReportsDoneWhenEveryRankHasFinished) {
  int ticks = 0;
  bool all = false;
  const LaunchRequest wanted = request({"finish"});
  const LaunchResult result =
      run(wanted, {.on_tick = [&ticks] { ++ticks; }, .on_all_ranks = [&all] { all = true; }});
  EXPECT_EQ(result.outcome, LaunchOutcome::kDone);
  EXPECT_EQ(exit_code(result), 0);
  EXPECT_FALSE(result.error.has_value());
  EXPECT_TRUE(all);
  EXPECT_GE(ticks, 1);
  EXPECT_THAT(read_text_file(wanted.paths.output()).value(), HasSubstr("hello from rank 0"));
}

TEST_P(Supervisor, NamesTheRankThatReportedAndItsPlace) {
  const LaunchResult result = run(request({"report", "disk full"}));
  EXPECT_EQ(result.outcome, LaunchOutcome::kFailed);
  EXPECT_EQ(result.culprit, Rank{1});
  ASSERT_TRUE(result.error.has_value());
  EXPECT_EQ(result.error->code, Code::kExhausted);
  EXPECT_EQ(result.error->message, "disk full");
  EXPECT_EQ(result.place, "step 17");
  EXPECT_EQ(exit_code(result), 1);
}

TEST_P(Supervisor, BelievesAnAgreedErrorAboutWhoFailed) {
  const LaunchResult result = run(request({"report", "rank 0: the loss is not finite"}));
  EXPECT_EQ(result.culprit, Rank{0});
}

TEST_P(Supervisor, GivesTheExitCodeAndLastWordsOfARankThatExits) {
  const LaunchResult result = run(request({"exit", "3"}));
  EXPECT_EQ(result.outcome, LaunchOutcome::kFailed);
  ASSERT_TRUE(result.error.has_value());
  EXPECT_THAT(result.error->message, HasSubstr("exited with code 3"));
  EXPECT_THAT(result.last_lines, Contains("last words of rank 1"));
  if (is_mpi()) {
    EXPECT_EQ(result.culprit, Rank{1});
  }
  EXPECT_EQ(exit_code(result), 1);
}

TEST_P(Supervisor, CallsAKilledRankLost) {
  const LaunchResult result = run(request({"killed"}));
  EXPECT_EQ(result.outcome, LaunchOutcome::kLost);
  ASSERT_TRUE(result.error.has_value());
  EXPECT_THAT(result.error->message, HasSubstr("lost"));
  EXPECT_THAT(result.last_lines, Contains("last words of rank 1"));
  EXPECT_THAT(result.error->message, HasSubstr("signal 9"));
  if (is_mpi()) {
    EXPECT_EQ(result.culprit, Rank{1});
    EXPECT_THAT(result.last_lines, ::testing::Each(::testing::Not(HasSubstr("mpirun"))));
  }
  EXPECT_EQ(exit_code(result), 3);
  EXPECT_THAT(processes_alive(), ::testing::IsEmpty());
}

TEST_P(Supervisor, DoesNotTakeAnExitWithZeroForTheEndOfARun) {
  const LaunchResult result = run(request({"silent"}));
  EXPECT_EQ(result.outcome, LaunchOutcome::kLost);
  EXPECT_EQ(exit_code(result), 3);
}

TEST_P(Supervisor, KillsRanksThatDoNotHeedAnAbort) {
  const LaunchRequest wanted = request({"deaf"});
  const Seconds start = monotonic_now();
  const LaunchResult result = run(wanted);
  EXPECT_EQ(result.outcome, LaunchOutcome::kFailed);
  EXPECT_EQ(result.error->message, "broken");
  EXPECT_THAT(processes_alive(), ::testing::IsEmpty());
  // Start, three seconds to stop, and as much again for a busy machine.
  EXPECT_LT((monotonic_now() - start).count(), 15);
}

/// Sends this process a signal once `ready` says so.
class SignalOnce {
 public:
  SignalOnce(int signal, std::function<bool()> ready)
      : thread_([signal, ready = std::move(ready)] {
          while (!ready()) ::usleep(5'000);
          ::kill(::getpid(), signal);
        }) {}
  ~SignalOnce() { thread_.join(); }

 private:
  std::thread thread_;
};

/// mpirun would kill its ranks one second after a SIGTERM of its own; these need three.
TEST_P(Supervisor, LetsASaveTakeThreeSecondsAfterTheFirstSignal) {
  auto signals = SignalPipe::create();
  ASSERT_TRUE(signals.has_value());
  std::atomic<bool> all{false};
  bool stopping = false;
  const SignalOnce sender(SIGTERM, [&all] { return all.load(); });
  const LaunchResult result = run(request({"save", "3"}), {.signals = &*signals,
                                                           .on_stop = [&] { stopping = true; },
                                                           .on_all_ranks = [&] { all = true; }});
  EXPECT_TRUE(stopping);
  EXPECT_EQ(result.outcome, LaunchOutcome::kStopped);
  EXPECT_EQ(exit_code(result), 75);
  EXPECT_TRUE(path_exists(saved(0)));
  EXPECT_TRUE(path_exists(saved(1)));
}

TEST_P(Supervisor, EndsTheRunAtOnceOnTheSecondSignal) {
  auto signals = SignalPipe::create();
  ASSERT_TRUE(signals.has_value());
  std::atomic<bool> all{false};
  std::atomic<bool> stopping{false};
  const SignalOnce first(SIGINT, [&all] { return all.load(); });
  const SignalOnce second(SIGINT, [&stopping] { return stopping.load(); });
  const LaunchResult result = run(request({"save", "600"}), {.signals = &*signals,
                                                             .on_stop = [&] { stopping = true; },
                                                             .on_all_ranks = [&] { all = true; }});
  EXPECT_EQ(result.outcome, LaunchOutcome::kAborted);
  EXPECT_EQ(exit_code(result), 130);
  EXPECT_FALSE(path_exists(saved(0)));
  EXPECT_THAT(processes_alive(), ::testing::IsEmpty());
}

TEST_P(Supervisor, AStopBeyondItsGraceIsAFailure) {
  auto signals = SignalPipe::create();
  ASSERT_TRUE(signals.has_value());
  LaunchRequest wanted = request({"save", "600"});
  wanted.stop_grace = Seconds(0.3);
  std::atomic<bool> all{false};
  const SignalOnce sender(SIGTERM, [&all] { return all.load(); });
  const LaunchResult result =
      run(wanted, {.signals = &*signals, .on_all_ranks = [&all] { all = true; }});
  EXPECT_EQ(result.outcome, LaunchOutcome::kFailed);
  EXPECT_THAT(result.error->message, HasSubstr("grace"));
}

TEST_P(Supervisor, NamesRanksThatNeverGreet) {
  LaunchRequest wanted = request({"unused"});
  wanted.command = {"/bin/sleep", "600"};
  wanted.start_timeout = Seconds(0.3);
  const LaunchResult result = run(wanted);
  EXPECT_EQ(result.outcome, LaunchOutcome::kFailed);
  EXPECT_EQ(result.error->code, Code::kTimeout);
  EXPECT_THAT(result.error->message, HasSubstr("rank 0, rank 1 did not start"));
}

TEST_P(Supervisor, LeavesNoProcessWhenTheLauncherItselfIsKilled) {
  const LaunchRequest wanted = request({"wait"});
  const std::string mark = scratch_.path() + "/all-ranks";
  const pid_t launcher = ::fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    const auto result =
        supervise(wanted, {.on_all_ranks = [&mark] { std::ofstream(mark) << "yes"; }});
    ::_exit(result.has_value() ? 0 : 1);
  }
  const auto within = [](double seconds, const std::function<bool()>& condition) {
    const Seconds deadline = monotonic_now() + Seconds(seconds);
    while (!condition() && monotonic_now() < deadline) ::usleep(20'000);
    return condition();
  };
  EXPECT_TRUE(within(20, [&mark] { return path_exists(mark); }));
  EXPECT_FALSE(processes_alive().empty());
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(within(5, [this] { return processes_alive().empty(); }));
  // What it could not remove itself the next launch does.
  static_cast<void>(remove_stale_shared_memory());
  EXPECT_FALSE(path_exists("/dev/shm/quadrille-" + wanted.run_id));
}

INSTANTIATE_TEST_SUITE_P(Backends, Supervisor, ::testing::Values("threads", "mpi"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(SupervisorPrograms, APlainProgramCountsByItsExitCode) {
  const test::ScratchFolder scratch;
  LaunchRequest wanted;
  wanted.paths = {scratch.path() + "/run"};
  wanted.run_id = "plain-" + std::to_string(::getpid());
  wanted.command = {"/bin/sh", "-c", "echo ready; exit $CODE"};
  const auto outcome_of = [&wanted](const char* code) {
    wanted.environment = {{"CODE", code}};
    return run(wanted);
  };
  EXPECT_EQ(outcome_of("0").outcome, LaunchOutcome::kDone);
  EXPECT_EQ(outcome_of("75").outcome, LaunchOutcome::kStopped);
  const LaunchResult failed = outcome_of("9");
  EXPECT_EQ(failed.outcome, LaunchOutcome::kFailed);
  EXPECT_THAT(failed.error->message, HasSubstr("exited with code 9"));
  // Only the lines of this launch, not those of the two before.
  EXPECT_THAT(failed.last_lines, ::testing::ElementsAre("ready"));
}

TEST(SupervisorPrograms, AProgramThatDoesNotExistIsNotStarted) {
  const test::ScratchFolder scratch;
  LaunchRequest wanted;
  wanted.paths = {scratch.path() + "/run"};
  wanted.run_id = "absent-" + std::to_string(::getpid());
  wanted.command = {scratch.path() + "/no-such-program"};
  const auto result = supervise(wanted, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kNotFound);
  EXPECT_THAT(result.error().message, HasSubstr("no-such-program"));
}

TEST(ExitCode, AWrongRequestIsTwoAndAFailedRunOne) {
  LaunchResult result;
  result.outcome = LaunchOutcome::kFailed;
  for (const auto& [code, expected] :
       {std::pair(Code::kInvalid, 2), std::pair(Code::kNotFound, 2), std::pair(Code::kExhausted, 1),
        std::pair(Code::kCorrupt, 1), std::pair(Code::kTimeout, 1)}) {
    result.error = Error{code, "x", {}};
    EXPECT_EQ(exit_code(result), expected) << to_text(code);
  }
}

}  // namespace
}  // namespace quadrille
