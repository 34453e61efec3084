// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_regions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

namespace quadrille::internal {
namespace {

/// Two processes' views of one run, both in this one.
class SharedRegionsTest : public ::testing::Test {
 protected:
  SharedRegionsTest()
      : device_(make_host_device()),
        pool_(Pool::create({device_.get(), Bytes(0), "test"}).value()),
        mine_(run_id(), Rank{0}),
        peers_(run_id(), Rank{1}) {}

  static std::string run_id() { return "regionstest" + std::to_string(getpid()); }

  /// A lease of rank 0 that rank 1 has mapped; its name is gone.
  Lease lease(Bytes bytes) {
    auto made = mine_.make(bytes).value();
    last_ = made.number;
    EXPECT_TRUE(peers_.map_peer(Rank{0}, made.number));
    made.segment.unlink();
    return mine_
        .publish(std::move(made), {Rank{0}, Rank{1}}, *pool_,
                 {bytes, MemoryTag::kGradient, "buckets"})
        .value();
  }
  [[nodiscard]] Location find(const void* memory, Bytes bytes) const {
    return mine_.locate(memory, bytes, {Rank{0}, Rank{1}});
  }
  static char* start(const Lease& lease) {
    return static_cast<char*>(lease.view(DType::kU8, Shape{1}).address());
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
  SharedRegions mine_;
  SharedRegions peers_;
  std::int64_t last_ = 0;
};

TEST_F(SharedRegionsTest, APeerFindsWhatIsInsideALease) {
  const Lease first = lease(10_KiB);
  const Lease second = lease(20_KiB);
  std::strcpy(start(second) + 5000, "gradient");
  const Location location = find(start(second) + 5000, Bytes(9));
  ASSERT_NE(location.region, Location::kNowhere);
  EXPECT_STREQ(static_cast<char*>(peers_.address(Rank{0}, location)), "gradient");
  EXPECT_EQ(mine_.address(Rank{0}, location), start(second) + 5000);
}

TEST_F(SharedRegionsTest, WhatIsNotWhollyInsideOrNotForAllReadersIsNowhere) {
  const Lease leased = lease(10_KiB);
  EXPECT_NE(find(start(leased), 10_KiB).region, Location::kNowhere);
  EXPECT_EQ(find(start(leased) + 1, 10_KiB).region, Location::kNowhere);
  EXPECT_EQ(find(start(leased) - 1, Bytes(1)).region, Location::kNowhere);
  int local = 0;
  EXPECT_EQ(find(&local, Bytes(4)).region, Location::kNowhere);
  EXPECT_EQ(mine_.locate(start(leased), Bytes(4), {Rank{0}, Rank{2}}).region, Location::kNowhere);
  EXPECT_NE(mine_.locate(start(leased), Bytes(4), {Rank{1}}).region, Location::kNowhere);
}

TEST_F(SharedRegionsTest, ALeaseThatEndedIsNotFoundAndItsMappingGoes) {
  const void* memory = nullptr;
  {
    const Lease leased = lease(10_KiB);
    memory = start(leased);
    EXPECT_EQ(mine_.live(), std::vector{last_});
  }
  EXPECT_EQ(find(memory, Bytes(1)).region, Location::kNowhere);
  EXPECT_TRUE(mine_.live().empty());
  auto* const theirs = static_cast<char*>(peers_.address(Rank{0}, Location{last_, 0}));
  peers_.keep_only(Rank{0}, mine_.live());
  EXPECT_DEATH(*theirs = 1, "^$|SEGV");
}

TEST_F(SharedRegionsTest, OffsetsAlikeInTwoSegmentsDifferInTheBitsThatCachesHash) {
  constexpr std::uintptr_t kHashed = 256 << 20;
  const Lease first = lease(3_MiB);
  const Lease second = lease(3_MiB);
  const auto place = [&](const Lease& lease) {
    return reinterpret_cast<std::uintptr_t>(start(lease)) % kHashed;
  };
  EXPECT_NE(place(first), place(second));
  // Colors are small: no carry from an offset within a few MiB makes the hashes meet.
  EXPECT_LT(place(first), 16U << 20U);
  EXPECT_LT(place(second), 16U << 20U);
}

}  // namespace
}  // namespace quadrille::internal
