// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a benchmark found: rows of medians with their spread, each beside the limits and peers that
// were measured in the same run. A ratio is taken within a repetition and only then is its median:
// what disturbs a machine disturbs both sides. Only ratios may be compared between runs.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"

namespace quadrille {

/// Of repeated measurements.
struct Figure {
  double median = 0;
  double lowest = 0;
  double highest = 0;
  std::int64_t count = 0;
};
/// `samples` is not empty.
[[nodiscard]] Figure figure_of(std::span<const double> samples);
[[nodiscard]] inline Figure figure_of(double sample) { return {sample, sample, sample, 1}; }
/// Of value / peer, pair by pair, as long as both have samples.
[[nodiscard]] Figure ratio_of(std::span<const double> values, std::span<const double> peers);

/// A limit or a peer, in the unit of its row.
struct BenchPeer {
  std::string name;
  Figure value;
  Figure ratio;  ///< The row's value over this one's.
  std::optional<double>
      aim;  ///< What the ratio should be at most, or at least where more is better.
};

struct BenchRow {
  std::string name;
  std::string unit;  ///< "s", "FLOP/s", "B/s", "tokens/s", "B", "1".
  Figure value;
  bool more_is_better = false;
  std::vector<BenchPeer> peers;
};

struct BenchReport {
  std::string name;     ///< "step", "gemm", ...
  std::string date;     ///< UTC.
  std::string machine;  ///< Processor, cores, memory, instruction set; no host name.
  std::string build;    ///< Version, revision, compiler, libraries.
  std::vector<BenchRow> rows;
  std::vector<std::string> notes;  ///< What the rows mean and what they do not claim.
};
/// Name, date, machine and build as they are here; no rows.
[[nodiscard]] Result<BenchReport> new_report(std::string name);

[[nodiscard]] Json to_json(const BenchReport& report);
/// Errors: kInvalid naming what is missing or of another kind.
[[nodiscard]] Result<BenchReport> bench_report_from(const Json& json);
/// A file that holds one report, or an object with an array of them as "reports". Errors: those of
/// read_json_file, kInvalid for another shape; each names the file.
[[nodiscard]] Result<std::vector<BenchReport>> read_reports(const std::string& path);

/// Lines for people.
[[nodiscard]] std::string bench_table(const BenchReport& report);
/// The same as tables of Markdown.
[[nodiscard]] std::string bench_markdown(const BenchReport& report);

struct ComparedRow {
  std::string name;  ///< "step: fp32, 4 x 64 tokens" and, for a ratio, "... / oneDNN's products".
  double before = 0;
  double after = 0;
  double ratio = 0;  ///< after / before
  bool more_is_better = false;
};
/// Every row, and every ratio to a peer, that both have. Errors: kInvalid where they share none.
[[nodiscard]] Result<std::vector<ComparedRow>> compare_reports(std::span<const BenchReport> before,
                                                               std::span<const BenchReport> after);
[[nodiscard]] std::string comparison_table(std::span<const ComparedRow> rows);

}  // namespace quadrille
