// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs that others published, read from the reference format (a JSON array of rows) into what the
// cost models take, and the errors of the models on them. What a row does not say gets a stated
// default, or is the planner's own choice; what cannot be modelled is named.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/plan/rank_memory.h"
#include "quadrille/plan/step_cost.h"

namespace quadrille {

struct PublishedRow {
  std::string id;
  std::string group;
  std::string model;
  std::string device;  ///< Name in the device library; the row's own text where unknown.
  std::string precision;
  TrainingRun run;
  ClusterSpec cluster;
  std::optional<double> step_seconds;  ///< Measured.
  std::optional<double> peak_bytes;    ///< Measured.
  MemoryMeasure measure = MemoryMeasure::kAllocated;
  RankPlace place = RankPlace::kFullest;
  bool out_of_memory = false;
  bool experts = false;               ///< Mixture of experts: reported apart.
  std::vector<std::string> defaults;  ///< "field: value (why)".
  std::string unmodelled;             ///< Why; empty: modelled.
  bool chooses_recompute = false;     ///< The row is silent; the planner chooses.
  bool chooses_micro_batch = false;
  bool chooses_interleave = false;

  [[nodiscard]] std::int64_t devices() const { return cluster.device_count(); }
};

/// Errors: kInvalid when the file is no array of objects; a row that lacks something is a row with
/// `unmodelled`, not an error.
[[nodiscard]] Result<std::vector<PublishedRow>> published_rows_from(const Json& file);

/// True for the half of the rows that constants may be fitted to (by a hash of the id).
[[nodiscard]] bool is_fitted_to(const PublishedRow& row);

/// Fills what the row is silent about: the least recompute that fits the device's memory, the
/// largest micro-batch that fits, the interleave that predicts the fastest step.
void choose_missing(PublishedRow& row, const CostConstants& constants = {},
                    const MemoryConstants& memory = {});

}  // namespace quadrille
