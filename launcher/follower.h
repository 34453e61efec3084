// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Follows a run's metrics.jsonl while rank 0 writes it, for the live line and the summary.

#include <string>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/observe/run_record.h"

namespace quadrille::launcher {

class MetricsFollower {
 public:
  explicit MetricsFollower(std::string path) : path_(std::move(path)) {}
  /// The rows that have been completed since the last call. A file that became shorter (rows past a
  /// resumed step were cut) is read from its start again.
  [[nodiscard]] std::vector<StepRecord> poll();

 private:
  std::string path_;
  std::size_t offset_ = 0;
  std::int64_t last_step_ = 0;
};

}  // namespace quadrille::launcher
