// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The thread backend against a serial sum in rank order, bit by bit.

#include <gtest/gtest.h>

#include <atomic>

#include "comm/collective_cases.h"
#include "quadrille/comm/world.h"
#include "support/guarded_device.h"

namespace quadrille {
namespace {

class Threads : public ::testing::TestWithParam<int> {
 protected:
  void run(const RankBody& body) {
    WorldOptions options;
    options.timeout = Seconds(60);
    const auto result = run_threads(GetParam(), options, body);
    EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().to_text());
  }
};

TEST_P(Threads, EveryCollectiveHasTheBitsOfASerialSumInRankOrder) {
  run([](World& world) {
    std::vector<Rank> everyone;
    for (int r = 0; r < world.size(); ++r) everyone.push_back(Rank{r});
    return testing::check_collectives(world.whole(), everyone);
  });
}

TEST_P(Threads, ControlValuesReachEveryRankInRankOrder) { run(testing::check_control); }

TEST_P(Threads, GroupsCommunicateApartFromEachOther) { run(testing::check_groups); }

INSTANTIATE_TEST_SUITE_P(Ranks, Threads, ::testing::Range(1, 7));

TEST(ThreadWorld, ReturnsTheErrorOfTheLowestRankThatFailedByItself) {
  const auto result = run_threads(4, {}, [](World& world) -> Result<void> {
    if (world.rank() == Rank{3}) return fail(Code::kCorrupt, "shard 3 is damaged");
    CollectiveScope scope = world.whole().open("never complete");
    return world.whole().barrier(scope);
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_EQ(result.error().message, "shard 3 is damaged");
}

TEST(ThreadWorld, RefusesAGroupThatItsMembersSeeDifferently) {
  std::atomic<int> refused = 0;
  const auto result = run_threads(3, {}, [&](World& world) -> Result<void> {
    const bool odd_one = world.rank() == Rank{2};
    const std::vector<Rank> mine =
        odd_one ? std::vector<Rank>{Rank{1}, Rank{2}} : std::vector<Rank>{Rank{0}, Rank{1}};
    const auto group = world.group(mine);
    if (!group && group.error().code == Code::kInvalid) ++refused;
    return {};
  });
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(refused, 1) << "ranks 0 and 1 agree with each other, rank 2 does not";
}

TEST(ThreadWorld, CarriesTensorsThatTheHostCannotTouchAsCopiesWithTheSameBits) {
  const auto result = run_threads(3, {}, [](World& world) -> Result<void> {
    const std::vector<Rank> everyone = {Rank{0}, Rank{1}, Rank{2}};
    QD_RETURN_IF_ERROR(
        testing::check_collectives(world.whole(), everyone, testing::make_guarded_device));
    if (world.staging() > Bytes(0)) return {};
    return fail(Code::kCorrupt, "no copy was made");
  });
  EXPECT_TRUE(result.has_value()) << result.error().message;
}

TEST(ThreadWorld, RefusesToSumWhatIsNotF32) {
  const auto result = run_threads(2, {}, [](World& world) -> Result<void> {
    auto device = make_host_device();
    auto stream = device->make_stream();
    double value = 1;
    const TensorView view(device.get(), &value, DType::kF64, Shape{1});
    CollectiveScope scope = world.whole().open("doubles");
    return world.whole().all_reduce(scope, *stream, view);
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace quadrille
