// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "quadrille/observe/profile.h"

namespace quadrille {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Operation product(std::int64_t rows) {
  Operation operation("matmul", 2.0 * static_cast<double>(rows) * 3 * 4);
  operation.extents = {rows, 3, 4};
  operation.variant = "NT";
  return operation;
}

OperationSpan span_of(const Operation& operation, double begin, double end, std::int64_t bytes) {
  return {operation, Bytes(bytes), Seconds(begin), Seconds(end)};
}

/// Three steps of the same operations; times are made up.
void run_steps(Profiler& profiler, int steps) {
  for (int step = 1; step <= steps; ++step) {
    const double begin = 10.0 * step;
    profiler.begin_step(step, 100 + 2 * step);
    profiler.ran(span_of(product(8), begin, begin + 2, 1000));
    profiler.ran(span_of(product(8), begin + 2, begin + 3, 1000));
    profiler.ran(span_of(product(16), begin + 3, begin + 4, 2000));
    profiler.end_step(100 + 2 * step + 1);
  }
}

TEST(Profiler, SumsWhatRanInTheStepsAfterTheFirstTwo) {
  Profiler profiler({.threads = 2});
  profiler.ran(span_of(product(8), 0, 1, 1));  // before any step
  run_steps(profiler, 5);
  profiler.ran(span_of(product(8), 90, 99, 1));  // after the last
  const StepsProfile profile = profiler.profile();
  EXPECT_EQ(profile.steps, 3);
  EXPECT_EQ(profile.threads, 2);
  EXPECT_EQ(profile.leases, 3) << "one a step";
  ASSERT_EQ(profile.operations.size(), 2u);
  const OperationProfile& first = profile.operations[0];
  EXPECT_EQ(first.key(), "matmul 8x3x4 NT");
  EXPECT_EQ(first.calls, 3 * 2);
  EXPECT_DOUBLE_EQ(first.seconds.count(), 3 * (2 + 1));
  EXPECT_DOUBLE_EQ(first.flops.count(), 6 * 2.0 * 8 * 3 * 4);
  EXPECT_DOUBLE_EQ(first.bytes, 6 * 1000);
  EXPECT_EQ(profile.operations[1].key(), "matmul 16x3x4 NT");
}

TEST(Profiler, TakesTheOperationsInsideACollectiveFromItsTime) {
  Profiler profiler({.skipped_steps = 0});
  Operation reduce("all_reduce");
  reduce.variant = kCollectiveVariant;
  profiler.begin_step(1, 0);
  profiler.ran(span_of("before", 0, 1, 1));
  profiler.ran(span_of("sum", 2, 3, 1));
  profiler.ran(span_of("copy", 3, 3.5, 1));
  profiler.ran(span_of(reduce, 1.5, 5, 64));
  profiler.end_step(0);
  const StepsProfile profile = profiler.profile();
  ASSERT_EQ(profile.operations.size(), 4u);
  EXPECT_EQ(profile.operations[0].name, "all_reduce");
  EXPECT_TRUE(profile.operations[0].is_collective());
  EXPECT_DOUBLE_EQ(profile.operations[0].seconds.count(), 3.5 - 1 - 0.5);
}

TEST(Profiler, TracesTheStepsThatItIsToldToAndNoOthers) {
  Profiler profiler({.rank = Rank{3}, .skipped_steps = 1, .traced_steps = 1});
  run_steps(profiler, 4);
  const RankTrace trace = profiler.trace();
  EXPECT_EQ(trace.rank, Rank{3});
  std::vector<std::string> names;
  for (const TraceSpan& span : trace.spans) names.push_back(span.name);
  EXPECT_THAT(names,
              ElementsAre("matmul 8x3x4 NT", "matmul 8x3x4 NT", "matmul 16x3x4 NT", "step 2"));
}

TEST(Profiler, NamesAScopeOnlyWhereSomebodyWatches) {
  int named = 0;
  const auto name = [&named] {
    ++named;
    return std::string("forward layer 1");
  };
  { const TraceScope scope(nullptr, SpanKind::kInstruction, name); }
  EXPECT_EQ(named, 0);
  Profiler profiler({.skipped_steps = 0});
  profiler.begin_step(1, 0);
  { const TraceScope scope(&profiler, SpanKind::kInstruction, name); }
  profiler.end_step(0);
  ASSERT_EQ(profiler.trace().spans.size(), 2u);
  EXPECT_EQ(profiler.trace().spans[0].name, "forward layer 1");
  EXPECT_EQ(profiler.trace().spans[0].kind, SpanKind::kInstruction);
}

TEST(StepsProfile, ComesBackFromItsJson) {
  Profiler profiler({.threads = 2});
  run_steps(profiler, 4);
  const StepsProfile profile = profiler.profile();
  const auto again = steps_profile_from(to_json(profile));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(to_json(*again), to_json(profile));
  EXPECT_EQ(again->operations[0].extents, profile.operations[0].extents);
  const auto broken = steps_profile_from(Json::object().set("steps", 3));
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code, Code::kCorrupt);
  EXPECT_THAT(broken.error().message, HasSubstr("no operations"));
}

TEST(StepsProfile, MergesRanksToTheirMean) {
  StepsProfile first;
  first.steps = 2;
  first.seconds = Seconds(4);
  first.page_faults = 10;
  first.operations = {{.name = "a", .calls = 2, .seconds = Seconds(3), .bytes = 8},
                      {.name = "b", .calls = 2, .seconds = Seconds(0.5)}};
  StepsProfile second = first;
  second.seconds = Seconds(6);
  second.page_faults = 20;
  second.operations = {{.name = "b", .calls = 2, .seconds = Seconds(5.5)}};
  const StepsProfile all = merge(std::vector{first, second});
  EXPECT_EQ(all.ranks, 2);
  EXPECT_DOUBLE_EQ(all.seconds.count(), 5);
  EXPECT_DOUBLE_EQ(all.page_faults, 15);
  ASSERT_EQ(all.operations.size(), 2u);
  EXPECT_EQ(all.operations[0].name, "b") << "the one with the most seconds first";
  EXPECT_DOUBLE_EQ(all.operations[0].seconds.count(), 3);
  EXPECT_DOUBLE_EQ(all.operations[1].seconds.count(), 1.5) << "rank 1 never ran it";
  EXPECT_DOUBLE_EQ(all.between().count(), 5 - 3 - 1.5);
}

RankTrace trace_of(int rank, const std::string& clock, double begin) {
  return {Rank{rank},
          clock,
          {{SpanKind::kStep, "step 3", Seconds(begin), Seconds(begin + 1), Flops(), Bytes()},
           {SpanKind::kOperation, "matmul", Seconds(begin + 0.25), Seconds(begin + 0.5), Flops(500),
            Bytes(100)}}};
}

/// The complete events of a process, in order.
std::vector<Json> spans_of(const Json& file, int process) {
  std::vector<Json> spans;
  for (const Json& event : file.find("traceEvents")->elements()) {
    if (event.string_or("ph", "") == "X" && event.integer_or("pid", -1) == process) {
      spans.push_back(event);
    }
  }
  return spans;
}

TEST(ChromeTrace, HasAProcessForEachRankAndARowForEachKind) {
  const auto file =
      parse_json(chrome_trace(std::vector{trace_of(0, "here", 100), trace_of(1, "here", 101)}), {});
  ASSERT_TRUE(file.has_value());
  std::vector<std::string> names;
  for (const Json& event : file->find("traceEvents")->elements()) {
    if (event.string_or("ph", "") == "M") {
      names.push_back(event.find("args")->string_or("name", ""));
    }
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"rank 0", "rank 1", "steps", "operations",
                                              "collectives", "instructions", "saves"}));
  const std::vector<Json> second = spans_of(*file, 1);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_DOUBLE_EQ(second[0].number_or("ts", -1), 1e6) << "a second after rank 0's first";
  EXPECT_DOUBLE_EQ(second[1].number_or("dur", -1), 0.25e6);
  EXPECT_DOUBLE_EQ(second[1].find("args")->number_or("flops_per_second", 0), 500 / 0.25);
  EXPECT_NE(second[0].integer_or("tid", 0), second[1].integer_or("tid", 0));
}

TEST(ChromeTrace, MovesARankOfAnotherClockToTheFirstRanksBegin) {
  const auto file = parse_json(
      chrome_trace(std::vector{trace_of(0, "here", 100), trace_of(1, "there", 7000)}), {});
  ASSERT_TRUE(file.has_value());
  EXPECT_DOUBLE_EQ(spans_of(*file, 0)[0].number_or("ts", -1), 0);
  EXPECT_DOUBLE_EQ(spans_of(*file, 1)[0].number_or("ts", -1), 0);
}

TEST(RankTrace, ComesBackFromItsJsonAndRefusesWhatIsNoSpan) {
  const RankTrace trace = trace_of(2, "here", 5);
  const auto again = rank_trace_from(to_json(trace));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(to_json(*again), to_json(trace));
  Json broken = to_json(trace);
  broken.at_or_insert("spans").push("nonsense");
  const auto refused = rank_trace_from(broken);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace quadrille
