// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Reports as words, and two of them beside each other.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "quadrille/bench/report.h"

namespace quadrille {
namespace {

struct Scale {
  double factor;
  std::string_view unit;
};

/// The unit in which a figure reads well.
Scale scale_of(double value, const std::string& unit) {
  constexpr std::array<Scale, 4> kSeconds{{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  if (unit == "s") {
    for (const Scale& scale : kSeconds) {
      if (value >= scale.factor) return scale;
    }
    return kSeconds.back();
  }
  if (unit == "FLOP/s") return {1e9, "GFLOP/s"};
  if (unit == "B/s") return {1e9, "GB/s"};
  if (unit == "B") return {1 << 20, "MiB"};
  return {1, unit == "1" ? std::string_view() : std::string_view(unit)};
}

std::string number(double value) {
  if (value == 0) return "0";
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  if (value >= 10) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

std::string spread(const Figure& figure, double factor) {
  if (figure.count < 2) return "";
  return fmt::format("{}-{}", number(figure.lowest / factor), number(figure.highest / factor));
}

std::string value_text(const Figure& figure, const std::string& unit) {
  const Scale scale = scale_of(figure.median, unit);
  std::string text = number(figure.median / scale.factor);
  if (!scale.unit.empty()) text.append(" ").append(scale.unit);
  const std::string range = spread(figure, scale.factor);
  return range.empty() ? text : text + " (" + range + ")";
}

std::string aim_text(const BenchRow& row, const BenchPeer& peer) {
  if (!peer.aim) return "";
  const bool is_met =
      row.more_is_better ? peer.ratio.median >= *peer.aim : peer.ratio.median <= *peer.aim;
  return fmt::format("{} {:.2f}{}", row.more_is_better ? "at least" : "at most", *peer.aim,
                     is_met ? "" : " MISSED");
}

std::string ratio_text(const Figure& ratio) {
  const std::string range = spread(ratio, 1);
  return number(ratio.median) + "x" + (range.empty() ? "" : " (" + range + ")");
}

constexpr std::size_t kBeside = 9;  // "  beside "

/// Of the longest name, of a row or of what stands beside it.
std::size_t name_width(const BenchReport& report) {
  std::size_t width = 40;
  for (const BenchRow& row : report.rows) {
    width = std::max(width, row.name.size());
    for (const BenchPeer& peer : row.peers) width = std::max(width, peer.name.size() + kBeside);
  }
  return width;
}

}  // namespace

std::string bench_table(const BenchReport& report) {
  std::string text =
      fmt::format("{}: {}, {}\n{}\n", report.name, report.machine, report.date, report.build);
  const std::size_t width = name_width(report);
  for (const BenchRow& row : report.rows) {
    text += fmt::format("  {:<{}}  {:<29}\n", row.name, width, value_text(row.value, row.unit));
    for (const BenchPeer& peer : row.peers) {
      text += fmt::format("    beside {:<{}}  {:<29}  {:<22}  {}\n", peer.name, width - kBeside,
                          value_text(peer.value, row.unit), ratio_text(peer.ratio),
                          aim_text(row, peer));
    }
  }
  for (const std::string& note : report.notes) text += "  " + note + "\n";
  return text;
}

std::string bench_markdown(const BenchReport& report) {
  std::string text = fmt::format(
      "## {}\n\n| what | median (spread) | beside | its median (spread) "
      "| ratio (spread) | aim |\n|---|---|---|---|---|---|\n",
      report.name);
  for (const BenchRow& row : report.rows) {
    const std::string head = fmt::format("| {} | {} |", row.name, value_text(row.value, row.unit));
    if (row.peers.empty()) text += head + " | | | |\n";
    for (const BenchPeer& peer : row.peers) {
      text +=
          fmt::format("{} {} | {} | {} | {} |\n", head, peer.name, value_text(peer.value, row.unit),
                      ratio_text(peer.ratio), aim_text(row, peer));
    }
  }
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += "- " + note + "\n";
  return text;
}

Result<std::vector<ComparedRow>> compare_reports(std::span<const BenchReport> before,
                                                 std::span<const BenchReport> after) {
  std::map<std::string, double> former;
  const auto visit = [](std::span<const BenchReport> reports, const auto& take) {
    for (const BenchReport& report : reports) {
      for (const BenchRow& row : report.rows) {
        const std::string name = report.name + ": " + row.name;
        take(name, row.value.median, row.more_is_better);
        for (const BenchPeer& peer : row.peers) {
          take(name + " / " + peer.name, peer.ratio.median, row.more_is_better);
        }
      }
    }
  };
  visit(before, [&](const std::string& name, double value, bool) { former[name] = value; });
  std::vector<ComparedRow> rows;
  visit(after, [&](const std::string& name, double value, bool more_is_better) {
    const auto found = former.find(name);
    if (found == former.end() || found->second == 0) return;
    rows.push_back({name, found->second, value, value / found->second, more_is_better});
  });
  if (rows.empty()) {
    return fail(Code::kInvalid,
                "the two results have no row in common: of other benchmarks, or "
                "of other options");
  }
  return rows;
}

std::string comparison_table(std::span<const ComparedRow> rows) {
  constexpr double kNoise = 0.05;
  std::string text =
      fmt::format("{:<88}{:>12}{:>12}{:>9}\n", "row", "before", "after", "after/before");
  for (const ComparedRow& row : rows) {
    const bool is_near = std::abs(row.ratio - 1) < kNoise;
    const bool is_better = row.more_is_better ? row.ratio > 1 : row.ratio < 1;
    text += fmt::format("{:<88}{:>12.4g}{:>12.4g}{:>9.3f}  {}\n", row.name, row.before, row.after,
                        row.ratio,
                        is_near     ? ""
                        : is_better ? "better"
                                    : "worse");
  }
  return text;
}

}  // namespace quadrille
