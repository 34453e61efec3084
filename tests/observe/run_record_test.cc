// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/observe/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

namespace quadrille {
namespace {

using ::testing::ElementsAre;

class RunRecordTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::vector<std::int64_t> steps(const std::string& file) const {
    std::vector<std::int64_t> steps;
    const auto rows = read_metrics(file).value();
    for (const StepRecord& row : rows) steps.push_back(row.step);
    return steps;
  }
  void write_steps(const std::string& file, std::int64_t first, std::int64_t last,
                   std::int64_t resume) const {
    auto writer = MetricsWriter::open(file, resume).value();
    for (StepRecord row; first <= last; ++first) {
      row.step = first;
      ASSERT_TRUE(writer.append(row).has_value());
    }
  }
  std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) /
                                  ("quadrille_run_record_" + std::to_string(getpid()));
};

StepRecord full_record() {
  StepRecord row;
  row.step = 3;
  row.loss = 2.0 / 3.0;
  row.tokens = 4096;
  row.seconds = Seconds(0.5);
  row.mfu = 0.31;
  row.gradient_norm = 1e-30;
  row.learning_rate = 3e-4;
  row.compute = Seconds(0.3);
  row.communication = Seconds(0.1);
  row.exposed_communication = Seconds(0.05);
  row.bubble = Seconds(0.02);
  row.data = Seconds(0.03);
  row.other = Seconds(0.1);
  row.checkpoint_wait = Seconds(0.04);
  row.peak = 3_GiB;
  row.peak_by_tag = {{"activation", 2_GiB}, {"parameter", 1_GiB}};
  row.validation_loss = 1.5;
  return row;
}

TEST(StepRecord, HasTheKeysThatScriptsRelyOn) {
  std::vector<std::string> keys;
  const Json row = to_json(full_record());
  for (const auto& [key, value] : row.members()) keys.push_back(key);
  EXPECT_THAT(
      keys, ElementsAre("step", "loss", "tokens", "seconds", "tokens_per_second", "mfu",
                        "gradient_norm", "learning_rate", "compute_seconds",
                        "communication_seconds", "exposed_communication_seconds", "bubble_seconds",
                        "data_seconds", "other_seconds", "checkpoint_wait_seconds", "peak_bytes",
                        "peak_bytes_by_tag", "validation_loss"));
  EXPECT_EQ(to_json(full_record()).number_or("tokens_per_second", 0), 4096 / 0.5);
}

TEST(StepRecord, ReadsBackToTheLastBit) {
  const Json written = to_json(full_record());
  const auto text = parse_json(write_json(written), {});
  ASSERT_TRUE(text.has_value());
  const auto row = step_record_from(*text);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(to_json(*row), written);
  EXPECT_EQ(row->peak_by_tag.at("activation"), 2_GiB);
}

TEST(StepRecord, WritesWhatIsUnknownAsNull) {
  StepRecord record;
  record.step = 1;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  const Json row = parse_json(write_json(to_json(record)), {}).value();
  for (const char* key : {"mfu", "tokens_per_second", "loss"}) {
    ASSERT_NE(row.find(key), nullptr) << key;
    EXPECT_TRUE(row.find(key)->is_null()) << key;
  }
  EXPECT_EQ(row.find("validation_loss"), nullptr);
  const StepRecord back = step_record_from(row).value();
  EXPECT_TRUE(std::isnan(back.loss));
  EXPECT_FALSE(back.mfu.has_value());
}

TEST(StepRecord, NeedsItsStep) {
  for (const char* text : {"{}", "[1]", R"({"step": "2"})", R"({"step": 0})", R"({"step": 1.5})"}) {
    const auto row = step_record_from(parse_json(text, {}).value());
    ASSERT_FALSE(row.has_value()) << text;
    EXPECT_EQ(row.error().code, Code::kCorrupt);
  }
}

TEST_F(RunRecordTest, ResumingCutsRowsPastTheStep) {
  const std::string file = path("metrics.jsonl");
  write_steps(file, 1, 7, 0);
  write_steps(file, 5, 6, 4);
  EXPECT_THAT(steps(file), ElementsAre(1, 2, 3, 4, 5, 6));
  write_steps(file, 1, 2, 0);
  EXPECT_THAT(steps(file), ElementsAre(1, 2));
}

/// A kill -9 in mid-write leaves a prefix of the last line: any prefix.
TEST_F(RunRecordTest, ATornLastRowIsLeftOutAndCutOnResume) {
  const std::string file = path("metrics.jsonl");
  write_steps(file, 1, 3, 0);
  const std::string whole = read_text_file(file).value();
  const std::size_t second = whole.find("{\"step\":3");
  ASSERT_NE(second, std::string::npos);
  for (std::size_t length = second; length < whole.size(); length += 7) {
    std::ofstream(file, std::ios::trunc) << whole.substr(0, length);
    EXPECT_THAT(steps(file), ElementsAre(1, 2)) << length;
    write_steps(file, 3, 4, 3);
    EXPECT_THAT(steps(file), ElementsAre(1, 2, 3, 4)) << length;
    EXPECT_EQ(read_text_file(file).value().substr(0, whole.size()), whole);
  }
}

TEST_F(RunRecordTest, MissingMetricsAreNotFoundAndUnwritableOnesAnError) {
  EXPECT_EQ(read_metrics(path("none.jsonl")).error().code, Code::kNotFound);
  EXPECT_FALSE(MetricsWriter::open(path("no/folder/metrics.jsonl"), 0).has_value());
}

std::vector<Json> events_of(const std::string& file) {
  std::ifstream stream(file);
  std::vector<Json> events;
  for (std::string line; std::getline(stream, line);)
    events.push_back(parse_json(line, {}).value());
  return events;
}

TEST_F(RunRecordTest, AnEventHasTimeKindRankAndItsFields) {
  auto log = EventLog::open(path("events.jsonl")).value();
  log.record("run_started", 0);
  log.record("checkpoint_saved", 2, Json::object().set("step", 10).set("path", "a \"b\"\n"));
  const auto events = events_of(path("events.jsonl"));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].string_or("kind", ""), "checkpoint_saved");
  EXPECT_EQ(events[1].integer_or("rank", -1), 2);
  EXPECT_EQ(events[1].integer_or("step", -1), 10);
  EXPECT_EQ(events[1].string_or("path", ""), "a \"b\"\n");
  EXPECT_EQ(events[1].string_or("time", "").size(), std::string("2026-12-01T12:13:14.123Z").size());
}

TEST_F(RunRecordTest, EventsOfSeveralThreadsAndWritersStayWhole) {
  auto first = EventLog::open(path("events.jsonl")).value();
  auto second = EventLog::open(path("events.jsonl")).value();
  const std::string filler(3000, 'x');
  const auto write = [&](EventLog& log, int rank) {
    for (int i = 0; i < 50; ++i)
      log.record("tick", rank, Json::object().set("i", i).set("filler", filler));
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] { write(rank % 2 == 0 ? first : second, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::int64_t> next(4, 0);
  for (const Json& event : events_of(path("events.jsonl"))) {
    const auto rank = static_cast<std::size_t>(event.integer_or("rank", 99));
    EXPECT_EQ(event.integer_or("i", -1), next.at(rank)++);
  }
  EXPECT_EQ(next, std::vector<std::int64_t>(4, 50));
}

TEST_F(RunRecordTest, ReopeningEventsCutsATornLine) {
  const std::string file = path("events.jsonl");
  EventLog::open(file).value().record("first", 0);
  const std::string whole = read_text_file(file).value();
  std::ofstream(file, std::ios::app) << R"({"time": ")" << std::string(9000, 'y');
  EventLog::open(file).value().record("second", 0);
  const auto events = events_of(file);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].string_or("kind", ""), "second");
  std::ofstream(file, std::ios::trunc) << "torn from the start";
  EventLog::open(file).value().record("only", 0);
  EXPECT_EQ(events_of(file).size(), 1u);
}

TEST_F(RunRecordTest, NowhereTakesEveryEvent) { EventLog::nowhere().record("lost", 0); }

}  // namespace
}  // namespace quadrille
