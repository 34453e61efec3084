// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a run writes as it goes: metrics.jsonl (one object per optimizer step), events.jsonl
// (everything that happened and why) and a log per rank, all in the run directory. Readers may
// follow along; a line is written whole or not at all.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/file.h"
#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille {

/// One row of metrics.jsonl; the design's contract names every key. Unknown figures are null.
struct StepRecord {
  std::int64_t step = 0;  ///< From 1.
  double loss = 0;        ///< Mean over the step's target tokens, before the update.
  std::int64_t tokens = 0;
  Seconds seconds;  ///< The slowest rank's.
  std::optional<double> mfu;
  double gradient_norm = 0;  ///< Global, before clipping.
  double learning_rate = 0;
  // Means over ranks; compute + exposed + bubble + data + other = seconds.
  Seconds compute;
  Seconds communication;
  Seconds exposed_communication;
  Seconds bubble;
  Seconds data;
  Seconds other;
  Seconds checkpoint_wait;                   ///< The longest of a rank's update, part of other.
  Bytes peak;                                ///< Largest rank, all tags.
  std::map<std::string, Bytes> peak_by_tag;  ///< Largest rank, by MemoryTag text.
  std::optional<double> validation_loss;
};
[[nodiscard]] Json to_json(const StepRecord& record);
[[nodiscard]] Result<StepRecord> step_record_from(const Json& row);

/// Rank 0's writer of metrics.jsonl.
class MetricsWriter {
 public:
  /// Cuts rows past `resume_step` (0 starts anew), then appends.
  [[nodiscard]] static Result<MetricsWriter> open(const std::string& path,
                                                  std::int64_t resume_step);
  [[nodiscard]] Result<void> append(const StepRecord& record);

 private:
  explicit MetricsWriter(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
};

/// events.jsonl: `{"time", "kind", "rank", ...fields}`. Safe from several threads of one process;
/// each process of a run appends to the same file in whole lines. An event that cannot be written
/// (full disk) is lost; the run goes on. Opening cuts the part of a line that a killed writer left.
class EventLog {
 public:
  [[nodiscard]] static Result<EventLog> open(const std::string& path);
  [[nodiscard]] static EventLog nowhere();
  /// `kind` is a snake_case noun phrase: "checkpoint_saved", "checkpoint_skipped", "run_started".
  void record(std::string_view kind, int rank, Json fields = Json::object());

 private:
  explicit EventLog(std::optional<AppendFile> file) : file_(std::move(file)) {}
  std::optional<AppendFile> file_;
};

/// All rows of a metrics file that parse, in order; a torn last line is left out.
[[nodiscard]] Result<std::vector<StepRecord>> read_metrics(const std::string& path);

}  // namespace quadrille
