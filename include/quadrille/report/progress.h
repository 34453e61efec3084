// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A run as words on a terminal: one line while it trains, a page when it is over. Text only;
// printing is the command line's.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/units.h"
#include "quadrille/observe/run_record.h"

namespace quadrille {

struct ProgressOptions {
  std::int64_t steps = 0;  ///< Of the whole run.
  int columns = 100;       ///< The line is cut there.
};

/// "step 120/2000  loss 1.923  28,400 tokens/s  MFU 31.2%  lr 2.9e-04  3 min 20 s left". The time
/// left is from the median of the last steps in `recent` (oldest first, the newest last; not
/// empty).
[[nodiscard]] std::string progress_line(std::span<const StepRecord> recent,
                                        const ProgressOptions& options);

struct CurveOptions {
  int columns = 64;
  int rows = 10;
};
/// The loss over the steps as dots with axes; validation losses as "o". Empty for fewer than two
/// rows.
[[nodiscard]] std::string loss_curve(std::span<const StepRecord> records,
                                     const CurveOptions& options);

struct SummaryFacts {
  std::string run_directory;
  Seconds wall;                                ///< Of the launch that just ended.
  std::optional<double> unigram_entropy;       ///< Nats per token, of the training text.
  std::map<std::string, Bytes> planned_bytes;  ///< Per rank, by tag, from the plan.
  std::vector<std::string> files;              ///< What lies where: "metrics.jsonl", ...
  Seconds evaluation;                          ///< Outside the steps.
};
/// Loss curve, last losses, where time and memory went (predicted beside measured), where results
/// lie.
[[nodiscard]] std::string summary(std::span<const StepRecord> records, const SummaryFacts& facts);

}  // namespace quadrille
