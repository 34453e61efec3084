// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/memory/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "support/guarded_device.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Pool> make_pool(Device& device, Bytes limit = Bytes(0)) {
  return Pool::create({&device, limit, "rank 1, host"}).value();
}

TEST(Pool, GrowsOnlyToItsLimit) {
  const auto device = make_host_device();
  const auto pool = make_pool(*device, 1_MiB);
  auto first = pool->lease(700_KiB, MemoryTag::kParameter, "weights").value();
  const auto refused = pool->lease(325_KiB, MemoryTag::kWorkspace, "scratch");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  const std::string& message = refused.error().message;
  for (const char* said :
       {"rank 1, host", "scratch", "workspace", "325", "1.0 MiB", "324", "parameter 700"}) {
    EXPECT_THAT(message, HasSubstr(said));
  }
  EXPECT_TRUE(pool->lease(324_KiB, MemoryTag::kWorkspace, "scratch").has_value());
  first = Lease();
  EXPECT_EQ(pool->leased(), Bytes(0));
}

TEST(Pool, RefusesSizesWhoseSumWouldOverflow) {
  const auto device = make_host_device();
  const auto pool = make_pool(*device, 1_MiB);
  const auto lease = pool->lease(1_KiB, MemoryTag::kParameter, "a").value();
  EXPECT_FALSE(pool->lease(Bytes(INT64_MAX), MemoryTag::kParameter, "b").has_value());
}

TEST(Pool, SaysWhatIsLeasedWhenTheDeviceIsFull) {
  const auto device = make_host_device();
  const auto pool = make_pool(*device);
  const auto lease = pool->lease(3_KiB, MemoryTag::kGradient, "a").value();
  const auto refused = pool->lease(Bytes(std::int64_t{1} << 60), MemoryTag::kActivation, "arena");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("arena (activation); leased: gradient 3"));
}

/// Random leases and returns against a plain model of the counters.
TEST(Pool, CountsBytesAndPeaksByTagThroughAnyHistory) {
  const auto device = make_host_device();
  const auto pool = make_pool(*device);
  std::mt19937 random(7);
  std::vector<std::pair<Lease, std::size_t>> live;
  std::array<std::int64_t, kMemoryTagCount> now{};
  std::array<std::int64_t, kMemoryTagCount> peak{};
  std::int64_t total_peak = 0;
  const auto sum = [&] {
    std::int64_t total = 0;
    for (const std::int64_t bytes : now) total += bytes;
    return total;
  };
  std::int64_t made = 0;
  for (int i = 0; i < 2000; ++i) {
    if (live.empty() || random() % 5 < 3) {
      const std::size_t tag = random() % kMemoryTagCount;
      const Bytes bytes(static_cast<std::int64_t>(random() % 5000));
      live.emplace_back(pool->lease(bytes, static_cast<MemoryTag>(tag), "x").value(), tag);
      now[tag] += bytes.count();
      ++made;
    } else {
      const std::size_t which = random() % live.size();
      std::swap(live[which], live.back());
      now[live.back().second] -= live.back().first.bytes().count();
      live.pop_back();
    }
    for (std::size_t tag = 0; tag < kMemoryTagCount; ++tag) {
      peak[tag] = std::max(peak[tag], now[tag]);
      ASSERT_EQ(pool->leased(static_cast<MemoryTag>(tag)).count(), now[tag]);
      ASSERT_EQ(pool->peak(static_cast<MemoryTag>(tag)).count(), peak[tag]);
    }
    total_peak = std::max(total_peak, sum());
    ASSERT_EQ(pool->leased().count(), sum());
    ASSERT_EQ(pool->peak().count(), total_peak);
  }
  EXPECT_EQ(pool->leases_made(), made);
}

TEST(Lease, MovingHandsOverTheMemoryOnce) {
  const auto device = make_host_device();
  const auto pool = make_pool(*device);
  Lease first = pool->lease(64_KiB, MemoryTag::kParameter, "a").value();
  Lease second = std::move(first);
  EXPECT_EQ(first.bytes(), Bytes(0));  // NOLINT: what a moved-from lease holds is the question
  EXPECT_EQ(second.bytes(), 64_KiB);
  second = pool->lease(1_KiB, MemoryTag::kParameter, "b").value();
  EXPECT_EQ(pool->leased(), 1_KiB);
}

TEST(Lease, ViewsMustFitAndBeAligned) {
  const auto device = make_host_device();
  const auto pool = make_pool(*device);
  const Lease lease = pool->lease(Bytes(100), MemoryTag::kParameter, "a").value();
  EXPECT_EQ(lease.view_at(Bytes(4), DType::kF32, {4, 6}).host<float>(),
            lease.view(DType::kF32, {1}).host<float>() + 1);
  EXPECT_EQ(lease.view(DType::kU8, {100}).device(), device.get());
  EXPECT_DEATH((void)lease.view_at(Bytes(4), DType::kF32, {5, 5}), "exceeds 100 B");
  EXPECT_DEATH((void)lease.view_at(Bytes(2), DType::kF32, {1}), "element_bytes");
  EXPECT_DEATH((void)Lease().view(DType::kU8, {0}), "pool_ != nullptr");
}

TEST(Pool, MustOutliveItsLeases) {
  const auto device = make_host_device();
  EXPECT_DEATH(
      {
        auto pool = make_pool(*device);
        const Lease lease = pool->lease(5_KiB, MemoryTag::kKvCache, "a").value();
        pool.reset();
      },
      "rank 1, host: still leased: kv_cache 5");
}

TEST(Pool, AdoptsMemoryFromElsewhereAndReleasesItOnce) {
  const auto device = make_host_device();
  const auto pool = make_pool(*device, 1_KiB);
  std::array<float, 8> values{};
  int released = 0;
  const ForeignMemory memory{values.data(), Bytes(32), [&] { ++released; }};
  {
    const Lease lease = pool->adopt(memory, MemoryTag::kCommunication, "window").value();
    EXPECT_EQ(lease.view(DType::kF32, {8}).address(), values.data());
    EXPECT_EQ(pool->leased(MemoryTag::kCommunication), Bytes(32));
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  const Lease most = pool->lease(1_KiB, MemoryTag::kWorkspace, "most").value();
  EXPECT_FALSE(pool->adopt(memory, MemoryTag::kCommunication, "window").has_value());
  EXPECT_EQ(released, 2);
}

TEST(Pool, LeasesZeroesOfADeviceThatTheHostCannotTouch) {
  const auto device = ::quadrille::testing::make_guarded_device();
  const auto pool = make_pool(*device);
  const auto stream = device->make_stream();
  const Lease lease = pool->lease(Bytes(40), MemoryTag::kParameter, "a").value();
  EXPECT_EQ(read_all<float>(*stream, lease.view(DType::kF32, {10})).value(),
            std::vector<float>(10, 0.0f));
}

TEST(Pool, NeedsADevice) { EXPECT_EQ(Pool::create({}).error().code, Code::kInvalid); }

}  // namespace
}  // namespace quadrille
