// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Follows a run's metrics.jsonl while rank 0 writes it, for the live line and the summary.

#include <cstdint>
#include <string>
#include <vector>

#include "quadrille/observe/run_record.h"

namespace quadrille::launcher {

class MetricsFollower {
 public:
  explicit MetricsFollower(std::string path) : path_(std::move(path)) {}

  /// Takes up rows that have been completed since the last call and returns how many are new. Where
  /// the file was cut (a run resumed at an earlier step), rows() forgets what was cut off.
  std::size_t poll();
  /// All rows of the file so far.
  [[nodiscard]] const std::vector<StepRecord>& rows() const { return rows_; }

 private:
  std::size_t read_from_offset();

  std::string path_;
  std::uint64_t inode_ = 0;
  std::size_t offset_ = 0;
  std::vector<StepRecord> rows_;
};

}  // namespace quadrille::launcher
