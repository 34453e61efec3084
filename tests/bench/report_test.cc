// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/bench/report.h"

#include <gmock/gmock.h>

#include "quadrille/base/file.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Figure, IsTheMedianWithWhatLiesFurthestFromIt) {
  const Figure odd = figure_of(std::vector{5.0, 1.0, 3.0});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.lowest, 1);
  EXPECT_EQ(odd.highest, 5);
  EXPECT_EQ(odd.count, 3);
  EXPECT_EQ(figure_of(std::vector{4.0, 1.0, 2.0, 100.0}).median, 3);
}

TEST(Figure, TakesRatiosPairByPairSoThatWhatSlowsBothDoesNotCount) {
  const Figure ratio = ratio_of(std::vector{1.0, 10.0, 1.2}, std::vector{2.0, 20.0, 2.4, 99.0});
  EXPECT_DOUBLE_EQ(ratio.median, 0.5);
  EXPECT_DOUBLE_EQ(ratio.lowest, 0.5);
  EXPECT_DOUBLE_EQ(ratio.highest, 0.5);
  EXPECT_EQ(ratio.count, 3) << "as long as both have samples";
}

BenchReport made_up_report(double step, double ratio) {
  BenchReport report{.name = "step",
                     .date = "2026-01-01T00:00:00Z",
                     .machine = "a machine",
                     .build = "a build",
                     .rows = {},
                     .notes = {"A note."}};
  report.rows.push_back(
      {.name = "fp32",
       .unit = "s",
       .value = {step, step * 0.9, step * 1.1, 7},
       .peers = {{"its products", {1, 1, 1, 7}, {ratio, ratio, ratio, 7}, 1.25}}});
  report.rows.push_back({.name = "rate",
                         .unit = "B/s",
                         .value = figure_of(3e9),
                         .more_is_better = true,
                         .peers = {{"the limit", figure_of(4e9), figure_of(0.75), 0.8}}});
  return report;
}

TEST(BenchReport, ComesBackFromItsJson) {
  const BenchReport report = made_up_report(1.5, 1.5);
  const auto again = bench_report_from(to_json(report));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(to_json(*again), to_json(report));
}

TEST(BenchReport, SaysInItsTableWhichAimsAreMissed) {
  const std::string missed = bench_table(made_up_report(1.5, 1.5));
  EXPECT_THAT(missed, HasSubstr("1.500 s (1.350-1.650)"));
  EXPECT_THAT(missed, HasSubstr("at most 1.25 MISSED"));
  EXPECT_THAT(missed, HasSubstr("3.000 GB/s"));
  EXPECT_THAT(missed, HasSubstr("at least 0.80 MISSED")) << "more is better there";
  const std::string met = bench_table(made_up_report(1.2, 1.2));
  EXPECT_THAT(met, Not(HasSubstr("at most 1.25 MISSED")));
  EXPECT_THAT(bench_markdown(made_up_report(1.2, 1.2)),
              HasSubstr("| fp32 | 1.200 s (1.080-1.320) | its products |"));
}

TEST(Comparison, IsARatioOfEachRowAndOfEachRatioThatBothHave) {
  BenchReport before = made_up_report(2, 1.5);
  before.rows.push_back({.name = "gone", .unit = "s", .value = figure_of(1), .peers = {}});
  const auto rows = compare_reports(std::vector{before}, std::vector{made_up_report(1, 1.2)});
  ASSERT_TRUE(rows.has_value());
  ASSERT_EQ(rows->size(), 4u);
  EXPECT_EQ(rows->at(0).name, "step: fp32");
  EXPECT_DOUBLE_EQ(rows->at(0).ratio, 0.5);
  EXPECT_EQ(rows->at(1).name, "step: fp32 / its products");
  EXPECT_DOUBLE_EQ(rows->at(1).ratio, 1.2 / 1.5);
  const std::string table = comparison_table(*rows);
  EXPECT_THAT(table, HasSubstr("better"));
  EXPECT_THAT(table, Not(HasSubstr("worse")));
}

TEST(Comparison, OfResultsThatShareNothingIsAnError) {
  BenchReport other = made_up_report(1, 1);
  other.name = "gemm";
  const auto rows = compare_reports(std::vector{other}, std::vector{made_up_report(1, 1)});
  ASSERT_FALSE(rows.has_value());
  EXPECT_EQ(rows.error().code, Code::kInvalid);
  EXPECT_THAT(rows.error().message, HasSubstr("no row in common"));
}

TEST(ReportFile, MayHoldOneReportOrManyAndNamesItselfWhereItHoldsNone) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/result.json";
  const Json one = to_json(made_up_report(1, 1));
  ASSERT_TRUE(write_file_atomically(path, write_json(one)).has_value());
  ASSERT_EQ(read_reports(path).value().size(), 1u);
  Json all = Json::array();
  all.push(one).push(one);
  const Json many = Json::object().set("reports", std::move(all));
  ASSERT_TRUE(write_file_atomically(path, write_json(many)).has_value());
  ASSERT_EQ(read_reports(path).value().size(), 2u);

  for (const char* text : {"{", "[1]", "{\"reports\": 3}", "{\"name\": \"step\", \"rows\": []}"}) {
    ASSERT_TRUE(write_file_atomically(path, text).has_value());
    const auto refused = read_reports(path);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, Code::kInvalid) << text;
    EXPECT_THAT(refused.error().to_text(), HasSubstr("result.json")) << text;
  }
  EXPECT_EQ(read_reports(folder.path() + "/absent.json").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace quadrille
