// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Messages of a pair and blocks of an all-to-all whose ranks do not agree: an error on every rank
// that is concerned, which names them. What they carry when all agree is in collective_cases.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>

#include "quadrille/comm/world.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;

/// A rank's stream and a tensor of `rows` x 2.
struct Rows {
  explicit Rows(std::int64_t rows)
      : device(make_host_device()),
        stream(device->make_stream()),
        pool(Pool::create({device.get(), Bytes(0), "test"}).value()),
        lease(pool->lease(Bytes(8 * rows), MemoryTag::kWorkspace, "rows").value()),
        view(lease.view(DType::kF32, Shape{rows, 2})) {}
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Pool> pool;
  Lease lease;
  TensorView view;
};

/// What each of the ranks returned; none of them fails the run.
template <std::size_t N>
std::array<Result<void>, N> run(const WorldOptions& options, const RankBody& body) {
  std::array<Result<void>, N> results;
  const auto all = run_threads(static_cast<int>(N), options, [&](World& world) -> Result<void> {
    results[static_cast<std::size_t>(world.rank().value)] = body(world);
    return {};
  });
  EXPECT_TRUE(all.has_value());
  return results;
}

TEST(Messages, ThoseOfAPairArriveInTheirOrderPastThirdRanks) {
  const auto results = run<3>({}, [](World& world) -> Result<void> {
    if (world.rank() == Rank{1}) return {};
    Rows rows(1);
    CollectiveScope scope = world.whole().open("stage boundary");
    for (int i = 0; i < 100; ++i) {
      const auto value = static_cast<float>(i);
      if (world.rank() == Rank{0}) {
        write_all<float>(*rows.stream, rows.view, std::array{value, -value});
        QD_RETURN_IF_ERROR(world.whole().send(scope, *rows.stream, rows.view, Rank{2}));
        continue;
      }
      QD_RETURN_IF_ERROR(world.whole().recv(scope, *rows.stream, rows.view, Rank{0}));
      QD_ASSIGN_OR_RETURN(const auto got, read_all<float>(*rows.stream, rows.view));
      if (got != std::vector{value, -value}) return fail(Code::kCorrupt, "another message");
    }
    return {};
  });
  for (const auto& result : results) EXPECT_TRUE(result) << result.error().to_text();
}

TEST(Messages, OneOfAnotherSizeIsAnErrorOnBothSides) {
  const auto results = run<2>({}, [](World& world) -> Result<void> {
    Rows rows(world.rank() == Rank{0} ? 3 : 4);
    CollectiveScope scope = world.whole().open("stage boundary");
    if (world.rank() == Rank{0}) {
      return world.whole().send(scope, *rows.stream, rows.view, Rank{1});
    }
    return world.whole().recv(scope, *rows.stream, rows.view, Rank{0});
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::kInvalid);
    EXPECT_THAT(result.error().message, HasSubstr("message 0 to 1"));
    EXPECT_THAT(result.error().message, HasSubstr("sends 24 bytes where the other expects 32"));
  }
}

TEST(Messages, TwoRanksThatSendToEachOtherFirstWaitUntilTheDeadlineNamesThem) {
  auto table = FlightTable::create("messagetest" + std::to_string(getpid()), 2).value();
  WorldOptions options;
  options.timeout = Seconds(0.3);
  options.recorder = &table;
  const auto results = run<2>(options, [](World& world) -> Result<void> {
    Rows rows(1);
    CollectiveScope scope = world.whole().open("stage boundary");
    return world.whole().send(scope, *rows.stream, rows.view, Rank{1 - world.rank().value});
  });
  table.remove();
  bool named = false;
  for (const auto& result : results) {
    ASSERT_FALSE(result.has_value());
    named = named || (result.error().code == Code::kTimeout &&
                      result.error().message.find("has not come") != std::string::npos);
  }
  EXPECT_TRUE(named) << results[0].error().message << "; " << results[1].error().message;
}

TEST(Messages, ToARankThatHasReturnedOrToOneselfFails) {
  const auto results = run<2>({}, [](World& world) -> Result<void> {
    if (world.rank() == Rank{1}) return {};
    Rows rows(1);
    CollectiveScope scope = world.whole().open("stage boundary");
    const auto self = world.whole().send(scope, *rows.stream, rows.view, Rank{0});
    EXPECT_EQ(self.error().code, Code::kInvalid);
    return world.whole().recv(scope, *rows.stream, rows.view, Rank{1});
  });
  ASSERT_FALSE(results[0].has_value());
  EXPECT_EQ(results[0].error().code, Code::kUnavailable);
  EXPECT_THAT(results[0].error().message, HasSubstr("rank 1 has returned"));
}

TEST(AllToAll, BlocksThatOneSendsAndAnotherDoesNotExpectAreNamedOnEveryRank) {
  const auto results = run<3>({}, [](World& world) -> Result<void> {
    Rows source(3);
    Rows target(3);
    RowSplits splits = RowSplits::even(3, world.rank(), 3);
    if (world.rank() == Rank{1}) splits.send = {2, 1, 0};
    CollectiveScope scope = world.whole().open("experts");
    const TensorView to(source.device.get(), target.view.address(), DType::kF32, Shape{3, 2});
    return world.whole().all_to_all(scope, *source.stream, source.view, to, splits);
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::kInvalid);
    EXPECT_THAT(result.error().message,
                HasSubstr("rank 1 sends 2 rows to rank 0, which receives 1"));
  }
}

TEST(AllToAll, SplitsThatDoNotFitTheirTensorsAreRefusedBeforeAnythingMoves) {
  const auto results = run<1>({}, [](World& world) -> Result<void> {
    Rows rows(4);
    Rows few(2);
    CollectiveScope scope = world.whole().open("experts");
    Communicator& whole = world.whole();
    EXPECT_THAT(
        whole.all_to_all(scope, *rows.stream, rows.view, rows.view, {{3}, {4}}).error().message,
        HasSubstr("the source has 4 rows, its blocks 3"));
    EXPECT_THAT(
        whole.all_to_all(scope, *rows.stream, rows.view, rows.view, {{2, 2}, {4}}).error().message,
        HasSubstr("the source is cut for 2 ranks of a group of 1"));
    const TensorView narrow = few.view.reshape(Shape{4, 1});
    EXPECT_THAT(
        whole.all_to_all(scope, *rows.stream, rows.view, narrow, {{4}, {4}}).error().message,
        HasSubstr("rows are F32 [1, 2] in the source and F32 [1, 1] in the target"));
    return {};
  });
  EXPECT_TRUE(results[0].has_value());
}

}  // namespace
}  // namespace quadrille
