// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/launch/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/scratch_folder.h"
#include "quadrille/base/file.h"
#include "quadrille/base/units.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(RunDirectory, MakesItsFoldersAndKnowsWhetherARunWasHere) {
  const test::ScratchFolder scratch;
  const std::string path = scratch.path() + "/runs/first";
  {
    const auto run = RunDirectory::open(path + "/");
    ASSERT_TRUE(run.has_value()) << run.error().to_text();
    EXPECT_EQ(run->paths().directory, path);
    EXPECT_FALSE(run->existed());
    EXPECT_TRUE(path_exists(run->paths().logs()));
    EXPECT_TRUE(path_exists(run->paths().checkpoints()));
    ASSERT_TRUE(write_file_atomically(run->paths().job(), "{}").has_value());
  }
  const auto again = RunDirectory::open(path);
  ASSERT_TRUE(again.has_value()) << again.error().to_text();
  EXPECT_TRUE(again->existed());
}

TEST(RunDirectory, RefusesASecondLaunchNamingThePidOfTheFirst) {
  const test::ScratchFolder scratch;
  const auto first = RunDirectory::open(scratch.path() + "/run");
  ASSERT_TRUE(first.has_value());
  const auto second = RunDirectory::open(scratch.path() + "/run");
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kInvalid);
  EXPECT_THAT(second.error().message, HasSubstr("pid " + std::to_string(::getpid())));
}

TEST(RunDirectory, IsFreeAgainOnceItsHolderIsGoneHoweverItEnded) {
  const test::ScratchFolder scratch;
  const std::string path = scratch.path() + "/run";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto held = RunDirectory::open(path);
    if (held) ::raise(SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(RunDirectory::open(path).has_value());
}

TEST(RunDirectory, WaitsForRanksOfADeadLauncher) {
  const test::ScratchFolder scratch;
  const RunPaths paths{scratch.path() + "/run"};
  ASSERT_TRUE(RunDirectory::open(paths.directory).has_value());  // opened and freed
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t rank = ::fork();
  ASSERT_GE(rank, 0);
  if (rank == 0) {
    const auto lock = RankLock::take(paths);
    const char letter = lock ? 'y' : 'n';
    const ssize_t written = ::write(ready[1], &letter, 1);
    ::usleep(300'000);
    ::_exit(written == 1 ? 0 : 1);
  }
  char letter = 0;
  ASSERT_EQ(::read(ready[0], &letter, 1), 1);
  ASSERT_EQ(letter, 'y');
  EXPECT_TRUE(RunDirectory::open(paths.directory).has_value());
  // open() returned only after the rank had let go, that is after it had ended or was about to.
  int status = 0;
  EXPECT_EQ(::waitpid(rank, &status, 0), rank);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(RunDirectory, LatestPointsAtTheNewestRunButNeverReplacesAFolder) {
  const test::ScratchFolder scratch;
  const std::string latest = scratch.path() + "/runs/latest";
  ASSERT_TRUE(RunDirectory::open(scratch.path() + "/runs/a").has_value());
  EXPECT_EQ(std::filesystem::read_symlink(latest), "a");
  ASSERT_TRUE(RunDirectory::open(scratch.path() + "/runs/b").has_value());
  EXPECT_EQ(std::filesystem::read_symlink(latest), "b");
  std::filesystem::remove(latest);
  std::filesystem::create_directory(latest);
  ASSERT_TRUE(RunDirectory::open(scratch.path() + "/runs/c").has_value());
  EXPECT_TRUE(std::filesystem::is_directory(std::filesystem::symlink_status(latest)));
}

TEST(RunDirectory, SaysWhereItCannotBeMade) {
  const test::ScratchFolder scratch;
  ASSERT_TRUE(write_file_atomically(scratch.path() + "/file", "x").has_value());
  const auto run = RunDirectory::open(scratch.path() + "/file/run");
  ASSERT_FALSE(run.has_value());
  EXPECT_THAT(run.error().message, HasSubstr("file"));
}

TEST(RunDirectory, DefaultNameHoldsNoSlashAndTheTime) {
  EXPECT_THAT(default_run_directory("king james"),
              MatchesRegex("runs/king-james-[0-9]{8}T[0-9]{6}Z"));
  EXPECT_THAT(default_run_directory("../../etc"), MatchesRegex("runs/run\\.\\.-\\.\\.-etc-.*"));
  EXPECT_THAT(default_run_directory(""), MatchesRegex("runs/run-.*"));
}

TEST(RunPaths, RankLogsSortByRank) {
  const RunPaths paths{"r"};
  EXPECT_EQ(paths.rank_log(Rank{7}), "r/logs/rank-0007.log");
  EXPECT_LT(paths.rank_log(Rank{9}), paths.rank_log(Rank{10}));
}

}  // namespace
}  // namespace quadrille
