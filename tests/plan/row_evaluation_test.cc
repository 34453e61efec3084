// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/row_evaluation.h"

#include <gmock/gmock.h>

namespace quadrille {
namespace {

using ::testing::IsEmpty;

std::vector<PublishedRow> rows_of(const std::string& name) {
  const auto json = read_json_file(std::string(QUADRILLE_SOURCE_DIR) + "/tests/plan/data/" + name);
  EXPECT_TRUE(json.has_value()) << (json ? "" : json.error().to_text());
  return published_rows_from(json.value_or(Json::array())).value();
}

TEST(RowEvaluation, SummarizesSignedErrors) {
  const ErrorSummary summary = summarize({-0.4, 0.1, 0.2, -0.3, 0});
  EXPECT_EQ(summary.rows, 5U);
  EXPECT_DOUBLE_EQ(summary.median, 0.2);
  EXPECT_DOUBLE_EQ(summary.mean, 0.2);
  EXPECT_DOUBLE_EQ(summary.ninetieth, 0.4);
  EXPECT_DOUBLE_EQ(summary.bias, 0);
  EXPECT_EQ(summarize({}).rows, 0U);
}

TEST(RowEvaluation, CountsPairsInTheSameOrder) {
  const std::vector<double> order{1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(kendall_tau(order, order), 1);
  EXPECT_DOUBLE_EQ(kendall_tau(order, std::vector<double>{4, 3, 2, 1}), -1);
  // One of six pairs is turned round: (5 - 1) / 6.
  EXPECT_DOUBLE_EQ(kendall_tau(order, std::vector<double>{2, 1, 3, 4}), 4.0 / 6);
  EXPECT_DOUBLE_EQ(kendall_tau({}, {}), 0);
}

TEST(RowEvaluation, CountsRowsItCannotModelAsWrong) {
  std::vector<PublishedRow> rows = rows_of("one_node_runs.json");
  rows.resize(100);
  const double before = evaluate_rows(rows, RowHalf::kAll).step.mean;
  for (std::size_t i = 0; i < 13; ++i) rows[i].unmodelled = "for the test";
  const RowsEvaluation evaluation = evaluate_rows(rows, RowHalf::kAll);
  EXPECT_EQ(evaluation.unmodelled.size(), 13U);
  EXPECT_EQ(evaluation.unmodelled_as_errors, 10U);  // 3 of 100 are forgiven.
  EXPECT_EQ(evaluation.step.rows, 97U);
  EXPECT_GT(evaluation.step.mean, before + 0.05);
}

TEST(RowEvaluation, KeepsMixturesOfExpertsApart) {
  std::vector<PublishedRow> rows = rows_of("one_node_runs.json");
  for (std::size_t i = 0; i < 5; ++i) rows[i].experts = true;
  const RowsEvaluation evaluation = evaluate_rows(rows, RowHalf::kAll);
  EXPECT_EQ(evaluation.expert_step.rows, 5U);
  EXPECT_EQ(evaluation.step.rows, rows.size() - 5);
}

TEST(RowEvaluation, SplitsTheRowsInHalves) {
  const auto rows = rows_of("published_runs.json");
  const std::size_t fitted = evaluate_rows(rows, RowHalf::kFitted).predictions.size();
  const std::size_t held = evaluate_rows(rows, RowHalf::kHeldOut).predictions.size();
  EXPECT_EQ(fitted + held, evaluate_rows(rows, RowHalf::kAll).predictions.size());
  EXPECT_NEAR(static_cast<double>(fitted), static_cast<double>(held), 60);
}

// The promise of docs/planner.md, on rows that no constant was fitted to.
TEST(RowEvaluation, PredictsStepsOfRunsItWasNotFittedTo) {
  const RowsEvaluation evaluation =
      evaluate_rows(rows_of("published_runs.json"), RowHalf::kHeldOut);
  EXPECT_GT(evaluation.step.rows, 300U);
  EXPECT_LT(evaluation.step.median, 0.06);
  EXPECT_LT(evaluation.step.ninetieth, 0.22);
  EXPECT_LT(evaluation.step.median, evaluation.one_rate.median);
  EXPECT_LT(evaluation.step.ninetieth, evaluation.one_rate.ninetieth);
}

TEST(RowEvaluation, IsNotWorseThanOneRatePerKindAtAnyScale) {
  const RowsEvaluation evaluation = evaluate_rows(rows_of("published_runs.json"), RowHalf::kAll);
  for (const auto& [scale, errors] : evaluation.step_by_scale) {
    EXPECT_LT(errors.median, evaluation.one_rate_by_scale.at(scale).median) << scale;
  }
}

TEST(RowEvaluation, PicksLayoutsNearTheBestOnOneNode) {
  const RowsEvaluation evaluation = evaluate_rows(rows_of("one_node_runs.json"), RowHalf::kAll);
  EXPECT_GE(evaluation.one_node.sets, 20U);
  EXPECT_LT(evaluation.one_node.slowdown, 0.05);
  EXPECT_GT(evaluation.one_node.tau, 0.75);
}

TEST(RowEvaluation, PredictsPeakMemory) {
  const RowsEvaluation evaluation =
      evaluate_rows(rows_of("published_runs.json"), RowHalf::kHeldOut);
  EXPECT_GT(evaluation.allocated_memory.rows, 25U);
  EXPECT_LT(evaluation.allocated_memory.median, 0.05);
  EXPECT_LT(evaluation.device_memory.median, 0.15);
}

TEST(RowEvaluation, ReportsEveryPartInJsonAndText) {
  const RowsEvaluation evaluation = evaluate_rows(rows_of("one_node_runs.json"), RowHalf::kAll);
  const Json json = to_json(evaluation);
  EXPECT_EQ(json.find("rows")->elements().size(), evaluation.predictions.size());
  const Json& row = json.find("rows")->elements().front();
  double parts = 0;
  for (const auto& [key, value] : row.members()) {
    if (key != "id" && key != "step_seconds" && key != "memory_bytes") parts += value.as_number();
  }
  EXPECT_NEAR(parts, row.number_or("step_seconds", 0), 1e-9);
  EXPECT_THAT(to_text(evaluation), ::testing::HasSubstr("one node"));
}

}  // namespace
}  // namespace quadrille
