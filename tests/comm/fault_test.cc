// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What goes wrong between ranks must end every wait quickly and name the rank that did it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "quadrille/comm/world.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  std::vector<Result<void>> ranks;
  Result<void> all;
  Seconds seconds;
};

/// Runs ranks as threads and keeps what each of them returned.
class Faults : public ::testing::Test {
 protected:
  Faults() { options_.timeout = Seconds(30); }

  Outcome run(int ranks, const RankBody& body) {
    Outcome outcome;
    outcome.ranks.resize(static_cast<std::size_t>(ranks));
    const Seconds started = monotonic_now();
    outcome.all = run_threads(ranks, options_, [&](World& world) {
      auto& mine = outcome.ranks[static_cast<std::size_t>(world.rank().value)];
      return mine = body(world);
    });
    outcome.seconds = monotonic_now() - started;
    return outcome;
  }

  static Result<void> reduce(World& world, std::int64_t elements, std::string_view place) {
    auto device = make_host_device();
    auto stream = device->make_stream();
    QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
    QD_ASSIGN_OR_RETURN(const Lease lease,
                        pool->lease(Bytes(elements * 4), MemoryTag::kGradient, "tensor"));
    CollectiveScope scope = world.whole().open(place);
    return world.whole().all_reduce(scope, *stream, lease.view(DType::kF32, Shape{elements}));
  }
  static Result<void> broadcast(World& world, std::int64_t elements) {
    auto device = make_host_device();
    auto stream = device->make_stream();
    QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
    QD_ASSIGN_OR_RETURN(const Lease lease,
                        pool->lease(Bytes(elements * 4), MemoryTag::kGradient, "tensor"));
    CollectiveScope scope = world.whole().open("bucket 3");
    return world.whole().broadcast(scope, *stream, lease.view(DType::kF32, Shape{elements}),
                                   Rank{0});
  }
  static void expect_all(const Outcome& outcome, Code code, std::string_view message) {
    for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
      ASSERT_FALSE(outcome.ranks[r].has_value()) << "rank " << r;
      EXPECT_EQ(outcome.ranks[r].error().code, code) << outcome.ranks[r].error().message;
      EXPECT_THAT(outcome.ranks[r].error().message, HasSubstr(message)) << "rank " << r;
    }
  }

  WorldOptions options_;
};

TEST_F(Faults, ARankThatReturnsEarlyIsNamedWithinFiveSeconds) {
  const Outcome outcome = run(3, [](World& world) -> Result<void> {
    if (world.rank() == Rank{2}) return {};
    return reduce(world, 100, "bucket 3");
  });
  EXPECT_LT(outcome.seconds, Seconds(5));
  EXPECT_TRUE(outcome.ranks[2].has_value());
  ASSERT_FALSE(outcome.ranks[0].has_value());
  EXPECT_EQ(outcome.ranks[0].error().code, Code::kUnavailable);
  EXPECT_THAT(outcome.ranks[0].error().message, HasSubstr("rank 2 has returned"));
  EXPECT_THAT(outcome.ranks[0].error().message, HasSubstr("all_reduce of 400 bytes at bucket 3"));
}

TEST_F(Faults, AFailingRankEndsTheOthersWithinThreeSecondsAndItsCauseTravels) {
  const Outcome outcome = run(3, [](World& world) -> Result<void> {
    if (world.rank() == Rank{1}) return fail(Code::kExhausted, "no memory for layer 7");
    return reduce(world, 100, "bucket 3");
  });
  EXPECT_LT(outcome.seconds, Seconds(3));
  EXPECT_EQ(outcome.all.error().code, Code::kExhausted);
  for (const std::size_t r : {std::size_t{0}, std::size_t{2}}) {
    ASSERT_FALSE(outcome.ranks[r].has_value());
    EXPECT_EQ(outcome.ranks[r].error().code, Code::kAborted);
    EXPECT_THAT(outcome.ranks[r].error().message,
                HasSubstr("rank 1 failed: no memory for layer 7"));
  }
}

TEST_F(Faults, AnotherOperationIsNamedOnEveryRank) {
  const Outcome outcome = run(3, [](World& world) {
    return world.rank() == Rank{1} ? broadcast(world, 100) : reduce(world, 100, "bucket 3");
  });
  EXPECT_LT(outcome.seconds, Seconds(5));
  expect_all(outcome, Code::kInvalid,
             "rank 1 calls broadcast of 400 bytes from root 0 at bucket 3 where the others call "
             "all_reduce of 400 bytes at bucket 3");
}

TEST_F(Faults, AnotherCountIsNamedOnEveryRank) {
  const Outcome outcome = run(2, [](World& world) {
    return reduce(world, world.rank() == Rank{1} ? 99 : 100, "bucket 3");
  });
  EXPECT_LT(outcome.seconds, Seconds(5));
  expect_all(outcome, Code::kInvalid,
             "rank 1 calls all_reduce of 396 bytes at bucket 3 where rank 0 calls all_reduce of "
             "400 bytes at bucket 3");
}

TEST_F(Faults, AnotherPlaceIsNamedOnEveryRank) {
  const Outcome outcome = run(3, [](World& world) {
    return reduce(world, 100, world.rank() == Rank{0} ? "bucket 4" : "bucket 3");
  });
  expect_all(outcome, Code::kInvalid, "rank 0 calls all_reduce of 400 bytes at bucket 4");
}

TEST_F(Faults, ALateRankIsAnErrorOnlyAtTheDeadlineAndThenOfEveryRank) {
  options_.timeout = Seconds(0.3);
  std::atomic<bool> others_gave_up = false;
  const Outcome outcome = run(3, [&](World& world) {
    if (world.rank() == Rank{1}) {
      while (!others_gave_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    auto result = reduce(world, 100, "bucket 3");
    others_gave_up = true;
    return result;
  });
  expect_all(outcome, Code::kTimeout, "rank 1");
  EXPECT_GE(outcome.seconds, Seconds(0.3));
}

class FlagSignal final : public StopSignal {
 public:
  bool stop_requested() const override { return false; }
  bool abort_requested() const override { return abort; }
  std::atomic<bool> abort = false;
};

TEST_F(Faults, AStopAtOnceEndsEveryWait) {
  FlagSignal signal;
  options_.stop = &signal;
  const Outcome outcome = run(3, [&](World& world) -> Result<void> {
    if (world.rank() == Rank{0}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      signal.abort = true;
    }
    return reduce(world, 100, "bucket 3");
  });
  EXPECT_LT(outcome.seconds, Seconds(5));
  expect_all(outcome, Code::kAborted, "stopped at once on request");
}

TEST_F(Faults, TheFlightRecorderOutlivesTheFaultAndSaysWhoWasWhere) {
  auto table = FlightTable::create("fault-test-" + std::to_string(getpid()), 2);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  options_.recorder = &*table;
  options_.timeout = Seconds(0.5);
  std::atomic<bool> gave_up = false;
  const Outcome outcome = run(2, [&](World& world) -> Result<void> {
    QD_RETURN_IF_ERROR(reduce(world, 7, "bucket 1"));
    if (world.rank() == Rank{1}) {
      while (!gave_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    auto result = reduce(world, 100, "bucket 2");
    gave_up = true;
    return result;
  });
  table->remove();
  expect_all(outcome, Code::kTimeout, "rank 1");
  EXPECT_THAT(outcome.ranks[0].error().message, HasSubstr("bucket 1")) << "its last place";
  EXPECT_TRUE(table->returned(Rank{0}));
  const auto last = table->entries(Rank{0}, 1);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].place, "bucket 2");
  EXPECT_FALSE(last[0].finished);
}

TEST_F(Faults, ALongWaitIsWarnedAboutInTheLog) {
  const std::string path = ::testing::TempDir() + "/comm_wait.log";
  std::remove(path.c_str());
  auto log = Logger::to_file(path);
  ASSERT_TRUE(log.has_value());
  options_.log = &*log;
  const Outcome outcome = run(2, [](World& world) {
    if (world.rank() == Rank{1}) std::this_thread::sleep_for(std::chrono::milliseconds(3400));
    return reduce(world, 100, "bucket 3");
  });
  EXPECT_TRUE(outcome.all.has_value()) << "merely late is no error";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("rank 0 waits in all_reduce of 400 bytes at bucket 3"));
  EXPECT_THAT(text.str(), HasSubstr("rank 1 has not come"));
}

}  // namespace
}  // namespace quadrille
