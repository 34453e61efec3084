// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "quadrille/observe/flight_recorder.h"

namespace quadrille {
namespace {

constexpr std::uint64_t kGroup = 77;

/// Four ranks of this process in step 5, all through collective 16 and about to meet in number 17.
class FindCulpritTest : public ::testing::Test {
 protected:
  FindCulpritTest() {
    for (const Rank rank : members_) {
      table_.set_process(rank, getpid());
      table_.set_step(rank, 5);
      arrive(rank, "all_gather", 64, "logits", 16);
      table_.finish(rank, kGroup);
    }
  }
  ~FindCulpritTest() override { table_.remove(); }

  void arrive(Rank rank, const char* operation, std::int64_t bytes, const char* place,
              std::uint64_t sequence = 17) {
    table_.enter(rank, {kGroup, sequence, operation, bytes, place, false, 0});
  }
  void arrive_all_but(int absent) {
    for (const Rank rank : members_) {
      if (rank.value != absent) arrive(rank, "all_reduce", 4096, "bucket 3");
    }
  }
  [[nodiscard]] std::string culprit() const {
    return find_culprit(table_, kGroup, 17, members_).value_or("nobody");
  }
  [[nodiscard]] static std::string pid() { return "(pid " + std::to_string(getpid()) + ")"; }

  std::vector<Rank> members_{Rank{0}, Rank{1}, Rank{2}, Rank{3}};
  FlightTable table_ = FlightTable::create("culprit-" + std::to_string(getpid()), 4).value();
};

/// A child that does nothing, killed at the end of its scope.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ == 0) {
      while (true) pause();
    }
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  int pid_;
};

TEST_F(FindCulpritTest, NobodyWhereAllAgree) {
  arrive_all_but(-1);
  EXPECT_EQ(culprit(), "nobody");
}

TEST_F(FindCulpritTest, TheOneThatHasNotCome) {
  arrive_all_but(2);
  EXPECT_EQ(culprit(),
            "rank 2 " + pid() + " has not come: it is in step 5, last in all_gather #16 at logits");
}

TEST_F(FindCulpritTest, TheOneThatHangsInAnotherGroup) {
  arrive_all_but(2);
  table_.enter(Rank{2}, {78, 4, "broadcast", 8, "weights", false, 0});
  EXPECT_EQ(culprit(), "rank 2 " + pid() +
                           " has not come: it is in step 5, and is in broadcast #4 at weights");
}

TEST_F(FindCulpritTest, AllThatHaveNotCome) {
  arrive(Rank{0}, "all_reduce", 4096, "bucket 3");
  EXPECT_EQ(
      culprit(),
      "rank 1 " + pid() +
          " has not come: it is in step 5, last in all_gather #16 at logits; nor have ranks 2, 3");
}

TEST_F(FindCulpritTest, TheOneThatReturnedEarly) {
  arrive_all_but(1);
  table_.set_returned(Rank{1});
  EXPECT_EQ(culprit(), "rank 1 " + pid() + " has returned, last in all_gather #16 at logits");
}

TEST_F(FindCulpritTest, TheOneWhoseProcessDied) {
  arrive_all_but(3);
  int dead = 0;
  {
    const Sleeper sleeper;
    dead = sleeper.pid();
  }
  table_.set_process(Rank{3}, dead);
  EXPECT_EQ(culprit(), "rank 3 (pid " + std::to_string(dead) +
                           ") has died in step 5, last in all_gather #16 at logits");
}

TEST_F(FindCulpritTest, AZombieIsDead) {
  arrive_all_but(3);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  table_.set_process(Rank{3}, child);
  EXPECT_THAT(culprit(), ::testing::HasSubstr("has died"));
  waitpid(child, nullptr, 0);
}

TEST_F(FindCulpritTest, TheOneThatDiedInsideTheCollective) {
  arrive_all_but(-1);
  int dead = 0;
  {
    const Sleeper sleeper;
    dead = sleeper.pid();
  }
  table_.set_process(Rank{0}, dead);
  EXPECT_EQ(culprit(), "rank 0 (pid " + std::to_string(dead) +
                           ") has died in step 5, and is in all_reduce #17 at bucket 3");
}

TEST_F(FindCulpritTest, TheOneThatIsStopped) {
  arrive_all_but(2);
  const Sleeper sleeper;
  kill(sleeper.pid(), SIGSTOP);
  ASSERT_EQ(waitpid(sleeper.pid(), nullptr, WUNTRACED), sleeper.pid());
  table_.set_process(Rank{2}, sleeper.pid());
  EXPECT_EQ(culprit(),
            "rank 2 (pid " + std::to_string(sleeper.pid()) +
                ") is stopped (SIGSTOP or a debugger) in step 5, last in all_gather #16 at logits");
}

TEST_F(FindCulpritTest, TheOneThatCallsSomethingElse) {
  arrive_all_but(1);
  arrive(Rank{1}, "broadcast", 8, "settings");
  EXPECT_EQ(
      culprit(),
      "rank 1 " + pid() +
          " calls broadcast of 8 bytes at settings where the others call all_reduce of 4096 bytes "
          "at bucket 3");
}

TEST_F(FindCulpritTest, TheOneThatBringsAnotherCount) {
  arrive_all_but(0);
  arrive(Rank{0}, "all_reduce", 4092, "bucket 3");
  EXPECT_EQ(
      culprit(),
      "rank 0 " + pid() +
          " calls all_reduce of 4092 bytes at bucket 3 where the others call all_reduce of 4096 "
          "bytes at bucket 3");
}

TEST_F(FindCulpritTest, OfTwoThatDifferBothAreNamed) {
  arrive(Rank{0}, "all_reduce", 4096, "bucket 3");
  arrive(Rank{1}, "all_reduce", 8, "norm");
  const auto culprit = find_culprit(table_, kGroup, 17, {Rank{0}, Rank{1}});
  EXPECT_EQ(culprit.value_or("nobody"),
            "rank 1 " + pid() +
                " calls all_reduce of 8 bytes at norm where rank 0 calls all_reduce of "
                "4096 bytes at bucket 3");
}

TEST_F(FindCulpritTest, ADeadRankExplainsWhatIsMissingElsewhere) {
  arrive(Rank{0}, "all_reduce", 4096, "bucket 3");
  int dead = 0;
  {
    const Sleeper sleeper;
    dead = sleeper.pid();
  }
  table_.set_process(Rank{3}, dead);  // ranks 1 and 2 are absent too, and alive
  EXPECT_THAT(culprit(),
              ::testing::StartsWith("rank 3 (pid " + std::to_string(dead) + ") has died"));
}

TEST_F(FindCulpritTest, NotTheOneThatIsThroughAlready) {
  arrive_all_but(2);
  arrive(Rank{2}, "all_reduce", 4096, "bucket 3");
  table_.finish(Rank{2}, kGroup);
  table_.set_returned(Rank{2});
  EXPECT_EQ(culprit(), "nobody");
}

}  // namespace
}  // namespace quadrille
