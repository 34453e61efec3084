// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// That the guarded device finds the faults it is for: each is planted and must be caught.

#include "support/guarded_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

namespace quadrille::testing {
namespace {

class GuardedDeviceTest : public ::testing::Test {
 protected:
  GuardedDeviceTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  ~GuardedDeviceTest() override { device_->release(memory_, Bytes(kBytes)); }

  [[nodiscard]] TensorView part(std::int64_t first, std::int64_t count) const {
    return TensorView(device_.get(), memory_, DType::kF32, {kBytes / 4}).flat(first, count);
  }
  static void add_one(Stream& stream, const TensorView& view) {
    const Operand operand{view, Access::kReadWrite};
    stream.launch("add_one", {&operand, 1}, [view] {
      for (std::int64_t i = 0; i < view.elements(); ++i) view.host<float>()[i] += 1;
    });
  }

  static constexpr std::int64_t kBytes = 64 << 10;
  std::unique_ptr<Device> device_ = make_guarded_device();
  void* memory_ = device_->allocate(Bytes(kBytes)).value();
};

TEST_F(GuardedDeviceTest, RunsOperationsInOrderOnZeroedMemory) {
  const auto stream = device_->make_stream();
  for (int i = 0; i < 20; ++i) add_one(*stream, part(3, 5));
  EXPECT_EQ(read_all<float>(*stream, part(2, 7)).value(),
            (std::vector<float>{0, 20, 20, 20, 20, 20, 0}));
}

TEST_F(GuardedDeviceTest, TakesAnUploadsSourceAtOnce) {
  const auto stream = device_->make_stream();
  std::vector<float> source{1, 2, 3};
  write_all<float>(*stream, part(0, 3), source);
  source.assign(3, -1);
  EXPECT_EQ(read_all<float>(*stream, part(0, 3)).value(), (std::vector<float>{1, 2, 3}));
}

TEST_F(GuardedDeviceTest, HasNotRunAnOperationWhenLaunchReturns) {
  const auto stream = device_->make_stream();
  std::atomic<std::thread::id> ran_on{};
  stream->launch("late", {}, [&] { ran_on = std::this_thread::get_id(); });
  ASSERT_TRUE(stream->synchronize().has_value());
  EXPECT_NE(ran_on.load(), std::this_thread::get_id());
  EXPECT_NE(ran_on.load(), std::thread::id());
}

TEST_F(GuardedDeviceTest, OrdersStreamsByEvents) {
  const auto first = device_->make_stream();
  const auto second = device_->make_stream();
  add_one(*first, part(0, 4));
  second->wait(*first->record());
  add_one(*second, part(0, 4));
  EXPECT_EQ(read_all<float>(*second, part(0, 1)).value(), std::vector<float>{2});
}

TEST_F(GuardedDeviceTest, CatchesAHostReadOutsideAnOperation) {
  const auto stream = device_->make_stream();
  add_one(*stream, part(0, 4));
  ASSERT_TRUE(stream->synchronize().has_value());
  const volatile float* secret = part(0, 4).host<float>();
  EXPECT_DEATH(std::printf("%f", static_cast<double>(secret[0])), "^$|SEGV");
}

TEST_F(GuardedDeviceTest, CatchesAnOperandThatWasNotDeclared) {
  const auto stream = device_->make_stream();
  const TensorView declared = part(0, 4);
  const TensorView hidden = part(8192, 4);  // on another page
  const Operand operand{declared, Access::kWrite};
  const auto run = [&] {
    stream->launch("copy", {&operand, 1},
                   [declared, hidden] { *declared.host<float>() = *hidden.host<float>(); });
    (void)stream->synchronize();
  };
  EXPECT_DEATH(run(), "^$|SEGV");
}

TEST_F(GuardedDeviceTest, CatchesAWriteToAnOperandDeclaredForReading) {
  const auto run = [&] {
    const auto stream = device_->make_stream();
    const Operand operand{part(0, 4), Access::kRead};
    stream->launch("write", {&operand, 1}, [view = part(0, 4)] { *view.host<float>() = 1; });
    (void)stream->synchronize();
  };
  EXPECT_DEATH(run(), "^$|SEGV");
}

TEST_F(GuardedDeviceTest, ADownloadIsNaNUntilSynchronized) {
  const auto stream = device_->make_stream();
  std::atomic<bool> release{false};
  stream->launch("hold", {}, [&] {
    while (!release) std::this_thread::yield();
  });
  std::vector<float> target(4, 7.0f);
  stream->download(part(0, 4), std::as_writable_bytes(std::span(target)));
  EXPECT_TRUE(std::isnan(target[0]) && std::isnan(target[3]));  // the planted missing synchronize
  release = true;
  ASSERT_TRUE(stream->synchronize().has_value());
  EXPECT_EQ(target, std::vector<float>(4, 0.0f));
}

TEST_F(GuardedDeviceTest, CatchesAMissingWaitBetweenStreams) {
  const auto run = [&] {
    const auto first = device_->make_stream();
    const auto second = device_->make_stream();
    add_one(*first, part(0, 4));
    add_one(*second, part(3, 4));
  };
  EXPECT_DEATH(run(),
               "add_one of stream 2 conflicts with add_one of stream 1, and nothing orders them");
}

TEST_F(GuardedDeviceTest, CatchesAnEventRecordedTooEarly) {
  const auto run = [&] {
    const auto first = device_->make_stream();
    const auto second = device_->make_stream();
    const auto event = first->record();
    add_one(*first, part(0, 4));
    second->wait(*event);
    add_one(*second, part(0, 4));
  };
  EXPECT_DEATH(run(), "nothing orders them");
}

TEST_F(GuardedDeviceTest, LetsStreamsReadTogetherAndUseDisjointParts) {
  const auto first = device_->make_stream();
  const auto second = device_->make_stream();
  add_one(*first, part(0, 4));
  add_one(*second, part(4, 4));
  ASSERT_TRUE(first->synchronize().has_value());
  ASSERT_TRUE(second->synchronize().has_value());
  const Operand whole{part(0, 8), Access::kRead};
  first->launch("read", {&whole, 1}, [] {});
  second->launch("read", {&whole, 1}, [] {});
  EXPECT_EQ(read_all<float>(*first, part(0, 8)).value(), std::vector<float>(8, 1.0f));
}

TEST_F(GuardedDeviceTest, CatchesMemoryReleasedUnderAPendingOperation) {
  const auto run = [&] {
    const auto stream = device_->make_stream();
    add_one(*stream, part(0, 4));
    device_->release(memory_, Bytes(kBytes));
  };
  EXPECT_DEATH(run(), "memory is released while add_one is pending");
}

TEST_F(GuardedDeviceTest, CatchesAnOperandBeyondItsAllocation) {
  const auto stream = device_->make_stream();
  const TensorView beyond(device_.get(), memory_, DType::kF32, {kBytes / 4 + 1});
  EXPECT_DEATH(add_one(*stream, beyond), "reaches beyond its allocation");
}

}  // namespace
}  // namespace quadrille::testing
