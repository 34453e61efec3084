// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/observe/flight_recorder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "observe/flight_ring.h"
#include "quadrille/base/shared_memory.h"

namespace quadrille {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::string run_id(const std::string& what) { return "flight-" + what + std::to_string(getpid()); }

/// An entry whose every field follows from one number, so that a torn one shows.
FlightEntry entry_of(std::uint64_t number) {
  const std::string text = std::to_string(number);
  return {number,
          number * 3,
          "op" + text,
          static_cast<std::int64_t>(number * 7),
          "place " + text,
          false,
          static_cast<double>(number)};
}

void expect_whole(const FlightEntry& entry) {
  const FlightEntry expected = entry_of(entry.group);
  EXPECT_EQ(entry.sequence, expected.sequence);
  EXPECT_EQ(entry.operation, expected.operation);
  EXPECT_EQ(entry.bytes, expected.bytes);
  EXPECT_EQ(entry.place, expected.place);
  EXPECT_EQ(entry.entered_seconds, expected.entered_seconds);
}

class FlightTableTest : public ::testing::Test {
 protected:
  ~FlightTableTest() override { table_.remove(); }
  std::string run_ = run_id("table");
  FlightTable table_ = FlightTable::create(run_, 3).value();
};

TEST_F(FlightTableTest, IsJoinedWhereItExists) {
  const FlightTable joined = FlightTable::join(run_, 3).value();
  table_.set_step(Rank{2}, 8);
  EXPECT_EQ(joined.step(Rank{2}), 8);
}

// Goal: on a host without the launcher the ranks share one table, whoever of them comes first.
TEST(FlightTableJoin, ManyWhoJoinAtOnceShareOneTable) {
  const std::string run = run_id("join");
  constexpr int kRanks = 8;
  std::vector<std::optional<FlightTable>> tables(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&tables, &run, rank] {
      auto table = FlightTable::join(run, kRanks);
      if (!table) return;
      table->set_step(Rank{rank}, 100 + rank);
      tables[static_cast<std::size_t>(rank)].emplace(std::move(*table));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (auto& table : tables) {
    ASSERT_TRUE(table.has_value());
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(table->step(Rank{rank}), 100 + rank);
  }
  EXPECT_TRUE(tables[0]->is_own());
  tables[0]->remove();
}

TEST_F(FlightTableTest, ShowsOneRanksEntriesToWhoeverOpensIt) {
  table_.set_process(Rank{1}, 4711);
  table_.set_step(Rank{1}, 12);
  table_.enter(Rank{1}, entry_of(1));
  table_.enter(Rank{1}, entry_of(2));
  table_.finish(Rank{1}, 1);
  table_.set_returned(Rank{2});
  const FlightTable other = FlightTable::open(run_).value();
  EXPECT_EQ(other.ranks(), 3);
  EXPECT_EQ(other.launcher(), getpid());
  EXPECT_EQ(other.process(Rank{1}), 4711);
  EXPECT_EQ(other.step(Rank{1}), 12);
  EXPECT_TRUE(other.returned(Rank{2}));
  EXPECT_FALSE(other.returned(Rank{1}));
  const auto entries = other.entries(Rank{1});
  ASSERT_EQ(entries.size(), 2u);
  expect_whole(entries[0]);
  expect_whole(entries[1]);
  EXPECT_TRUE(entries[0].finished);
  EXPECT_FALSE(entries[1].finished);
  EXPECT_TRUE(other.entries(Rank{0}).empty());
}

TEST_F(FlightTableTest, KeepsTheNewestEntriesOldestFirst) {
  const std::uint64_t count = 3 * internal::kFlightSlots + 5;
  for (std::uint64_t i = 1; i <= count; ++i) table_.enter(Rank{0}, entry_of(i));
  const auto all = table_.entries(Rank{0}, SIZE_MAX);
  ASSERT_EQ(all.size(), internal::kFlightSlots);
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect_whole(all[i]);
    EXPECT_EQ(all[i].group, count - all.size() + 1 + i);
  }
  EXPECT_EQ(table_.entries(Rank{0}, 2).front().group, count - 1);
}

TEST_F(FlightTableTest, CutsLongTexts) {
  table_.enter(Rank{0}, {1, 1, std::string(100, 'o'), 8, std::string(100, 'p'), false, 0});
  const auto entries = table_.entries(Rank{0});
  EXPECT_EQ(entries.at(0).operation, std::string(23, 'o'));
  EXPECT_EQ(entries.at(0).place, std::string(47, 'p'));
}

TEST_F(FlightTableTest, AReaderNeverSeesHalfAnEntry) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop; ++i) table_.enter(Rank{0}, entry_of(i));
  });
  std::size_t seen = 0;
  while (seen < 20000) {
    for (const FlightEntry& entry : table_.entries(Rank{0}, 4)) {
      expect_whole(entry);
      ++seen;
    }
  }
  stop = true;
  writer.join();
}

TEST_F(FlightTableTest, OutlivesAWriterKilledAtAnyInstant) {
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      FlightTable mine = FlightTable::open(run_).value();
      mine.set_process(Rank{2}, getpid());
      for (std::uint64_t i = 1;; ++i) mine.enter(Rank{2}, entry_of(i));
    }
    while (table_.process(Rank{2}) != child) std::this_thread::yield();
    const std::size_t before = table_.entries(Rank{2}, SIZE_MAX).size();
    usleep(static_cast<useconds_t>(200 + 37 * round));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const auto entries = table_.entries(Rank{2}, SIZE_MAX);
    EXPECT_GE(entries.size() + 1, before);  // at most the one it was writing is lost
    EXPECT_GT(entries.size(), 0u);
    for (const FlightEntry& entry : entries) expect_whole(entry);
  }
}

TEST(FlightTable, SaysWhatIsWrongWithATableThatItCannotOpen) {
  const std::string run = run_id("wrong");
  EXPECT_EQ(FlightTable::open(run).error().code, Code::kNotFound);
  auto memory = SharedMemory::create("quadrille-" + run, Bytes(16)).value();
  EXPECT_EQ(FlightTable::open(run).error().code, Code::kCorrupt);
  memory.unlink();
  memory = SharedMemory::create("quadrille-" + run, 64_KiB).value();
  EXPECT_EQ(FlightTable::open(run).error().code, Code::kCorrupt);
  memory.unlink();
  EXPECT_EQ(FlightTable::create("no/slash", 1).error().code, Code::kInvalid);
  EXPECT_EQ(FlightTable::create(std::string(150, 'x'), 1).error().code, Code::kInvalid);
}

TEST(FlightTable, OneRunHasOne) {
  const std::string run = run_id("one");
  FlightTable table = FlightTable::create(run, 1).value();
  EXPECT_EQ(FlightTable::create(run, 1).error().code, Code::kUnavailable);
  table.remove();
}

TEST(StaleSharedMemory, IsRemovedWhenAllItsProcessesAreDeadAndNotBefore) {
  const std::string dead = run_id("dead");
  const std::string alive = run_id("alive");
  FlightTable mine = FlightTable::create(alive, 1).value();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto table = FlightTable::create(dead, 2);
    const auto segment = SharedMemory::create("quadrille-" + dead + "-window-0", 8_KiB);
    (void)!write(ready[1], table && segment ? "y" : "n", 1);
    pause();
  }
  char made = 0;
  ASSERT_EQ(read(ready[0], &made, 1), 1);
  ASSERT_EQ(made, 'y');
  EXPECT_THAT(remove_stale_shared_memory(), Not(Contains("quadrille-" + dead)));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const auto removed = remove_stale_shared_memory();
  EXPECT_THAT(removed, Contains("quadrille-" + dead));
  EXPECT_THAT(removed, Contains("quadrille-" + dead + "-window-0"));
  EXPECT_THAT(removed, Not(Contains("quadrille-" + alive)));
  EXPECT_TRUE(list_shared_memory("quadrille-" + dead).empty());
  EXPECT_THAT(list_shared_memory("quadrille-" + alive), ElementsAre("quadrille-" + alive));
  mine.remove();
}

}  // namespace
}  // namespace quadrille
