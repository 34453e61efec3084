// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How wrong the cost models are on published runs: errors of step time and of peak memory over all
// rows, by kind of device, by scale and by source, and how well they rank layouts of one model.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "quadrille/plan/published_rows.h"

namespace quadrille {

/// Of |predicted / measured - 1|.
struct ErrorSummary {
  std::size_t rows = 0;
  double median = 0;
  double mean = 0;
  double ninetieth = 0;
  double bias = 0;  ///< Median of predicted / measured - 1, signed.
};

/// Of signed relative errors; zeroes where there is none.
[[nodiscard]] ErrorSummary summarize(std::vector<double> errors);

/// Over sets of at least four layouts of one model, sequence, device count, global batch and
/// precision.
struct RankingSummary {
  std::size_t sets = 0;
  double slowdown = 0;  ///< Mean of the pick's measured time over the best one's, less 1.
  double worst_slowdown = 0;
  double tau = 0;  ///< Mean of Kendall's tau.
};

struct RowPrediction {
  std::string id;
  StepCost step = {};
  double memory_bytes = 0;
};

struct RowsEvaluation {
  ErrorSummary step;
  std::map<std::string, ErrorSummary> step_by_device;
  std::map<std::string, ErrorSummary> step_by_scale;  ///< "1-8", "9-64", "65-512", "513+" devices.
  std::map<std::string, ErrorSummary> step_by_group;
  ErrorSummary expert_step;  ///< Mixture-of-experts rows, in none of the others.
  ErrorSummary one_rate;     ///< Yardstick: one efficiency per device and format, times the bubble.
  std::map<std::string, ErrorSummary> one_rate_by_device;
  std::map<std::string, ErrorSummary> one_rate_by_scale;
  ErrorSummary allocated_memory;  ///< Allocators' own figures, reserved ones included.
  ErrorSummary device_memory;     ///< nvidia-smi and the like.
  std::map<std::string, ErrorSummary> memory_by_group;
  std::vector<std::string> out_of_memory_said_to_fit;
  std::vector<std::string> ran_said_to_miss;  ///< The device's memory by more than 5%.
  RankingSummary one_node;
  RankingSummary many_nodes;
  std::vector<std::string> unmodelled;   ///< "id: why".
  std::size_t unmodelled_as_errors = 0;  ///< Of them, beyond 3% of the rows: each counts as 100%.
  std::vector<RowPrediction> predictions;
};

enum class RowHalf : std::uint8_t { kAll, kFitted, kHeldOut };
inline constexpr EnumTable<RowHalf, 3> kRowHalfText{
    {{{RowHalf::kAll, "all"}, {RowHalf::kFitted, "fitted"}, {RowHalf::kHeldOut, "held-out"}}}};

/// Chooses what rows are silent about, predicts and compares. Pure.
[[nodiscard]] RowsEvaluation evaluate_rows(std::vector<PublishedRow> rows, RowHalf half,
                                           const CostConstants& constants = {},
                                           const MemoryConstants& memory = {});

/// Kendall's tau of two orders of the same things, ties counting nothing; 0 for fewer than two.
[[nodiscard]] double kendall_tau(std::span<const double> a, std::span<const double> b);

[[nodiscard]] Json to_json(const RowsEvaluation& evaluation);
/// Tables for people.
[[nodiscard]] std::string to_text(const RowsEvaluation& evaluation);

}  // namespace quadrille
