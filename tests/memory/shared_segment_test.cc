// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/memory/shared_segment.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace quadrille {
namespace {

std::string run_id() { return "segmenttest" + std::to_string(getpid()); }

bool exists(const std::string& name) { return list_shared_memory(name) == std::vector{name}; }

TEST(SharedSegment, TwoProcessesSeeTheSameBytes) {
  auto mine = SharedSegment::create(run_id(), "both", 1_MiB).value();
  ASSERT_TRUE(std::all_of(mine.bytes().begin(), mine.bytes().end(),
                          [](std::byte b) { return b == std::byte{0}; }));
  mine.bytes()[12345] = std::byte{7};
  const std::string run = run_id();
  const pid_t child = fork();
  if (child == 0) {
    auto theirs = SharedSegment::open(run, "both");
    if (!theirs || theirs->bytes()[12345] != std::byte{7}) _exit(1);
    theirs->bytes()[54321] = std::byte{9};
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(mine.bytes()[54321], std::byte{9});
  mine.unlink();
  EXPECT_EQ(SharedSegment::open(run, "both").error().code, Code::kNotFound);
  EXPECT_EQ(mine.bytes()[54321], std::byte{9});
}

TEST(SharedSegment, TooLittleSpaceIsAnErrorNow) {
  const auto segment = SharedSegment::create(run_id(), "huge", Bytes(std::int64_t{1} << 44));
  ASSERT_FALSE(segment.has_value());
  EXPECT_EQ(segment.error().code, Code::kExhausted);
  EXPECT_NE(segment.error().message.find("16"), std::string::npos);
  EXPECT_FALSE(exists(segment_name(run_id(), "huge")));
}

TEST(SharedSegment, ANameServesOnce) {
  auto segment = SharedSegment::create(run_id(), "once", Bytes(1)).value();
  EXPECT_EQ(SharedSegment::create(run_id(), "once", Bytes(1)).error().code, Code::kUnavailable);
  EXPECT_EQ(SharedSegment::create(run_id(), "no/slash", Bytes(1)).error().code, Code::kInvalid);
  EXPECT_EQ(SharedSegment::create(run_id(), "none", Bytes(0)).error().code, Code::kInvalid);
  segment.unlink();
}

TEST(SharedSegment, BecomesALeaseThatUnmapsIt) {
  const auto device = make_host_device();
  const auto pool = Pool::create({device.get(), 1_MiB, "rank 0"}).value();
  auto segment = SharedSegment::create(run_id(), "lease", 64_KiB).value();
  segment.unlink();
  std::byte* start = segment.bytes().data();
  {
    const Lease lease =
        SharedSegment::into_lease(std::move(segment), *pool, MemoryTag::kGradient, "bucket")
            .value();
    EXPECT_EQ(lease.view(DType::kU8, {1}).address(), start);
    EXPECT_EQ(pool->leased(MemoryTag::kGradient), 64_KiB);
  }
  EXPECT_EQ(pool->leased(), Bytes(0));
  EXPECT_DEATH(*start = std::byte{1}, "^$|SEGV");
}

TEST(SharedMemory, LiesWhereItsColorSays) {
  constexpr std::uintptr_t kHashed = 256 << 20;
  for (const int color : {0, 1, 77}) {
    const std::string name = segment_name(run_id(), "color");
    auto made = SharedMemory::create(name, 3_MiB, color).value();
    const auto opened = SharedMemory::open(name, color + 1).value();
    made.unlink();
    const auto page_of = [&](const SharedMemory& memory) {
      return reinterpret_cast<std::uintptr_t>(memory.bytes().data()) % kHashed / 4096;
    };
    EXPECT_EQ(page_of(made), static_cast<std::uintptr_t>(color));
    EXPECT_EQ(page_of(opened), static_cast<std::uintptr_t>(color) + 1);
  }
}

TEST(SharedMemory, IsUnusedOnlyAfterAllItsProcessesHaveDied) {
  const std::string name = segment_name(run_id(), "dying");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto memory = SharedMemory::create(name, 4_KiB);
    (void)!write(ready[1], memory ? "y" : "n", 1);
    pause();
  }
  char made = 0;
  ASSERT_EQ(read(ready[0], &made, 1), 1);
  ASSERT_EQ(made, 'y');
  EXPECT_FALSE(remove_if_unused(name));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(exists(name));
  EXPECT_TRUE(remove_if_unused(name));
  EXPECT_FALSE(exists(name));
}

}  // namespace
}  // namespace quadrille
