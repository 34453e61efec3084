// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quadrille/report/progress.h"

namespace quadrille {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

Range range_of(std::span<const StepRecord> records) {
  Range range;
  for (const StepRecord& record : records) {
    range.include(record.loss);
    if (record.validation_loss) range.include(*record.validation_loss);
  }
  return range;
}

// A grid of characters whose first row is the highest loss.
class Canvas {
 public:
  Canvas(CurveOptions options, Range range, std::int64_t first, std::int64_t last)
      : options_(options),
        range_(range),
        first_(first),
        last_(last),
        rows_(static_cast<std::size_t>(options.rows),
              std::string(static_cast<std::size_t>(options.columns), ' ')) {}

  void put(std::int64_t step, double loss, char mark) {
    if (!std::isfinite(loss)) return;
    const double across = static_cast<double>(step - first_) / static_cast<double>(last_ - first_);
    const double up = (loss - range_.low) / std::max(range_.high - range_.low, 1e-12);
    const auto column = static_cast<std::size_t>(std::lround(across * (options_.columns - 1)));
    const auto row = static_cast<std::size_t>(std::lround((1 - up) * (options_.rows - 1)));
    rows_[row][column] = mark;
  }

  [[nodiscard]] std::string text() const {
    std::string all;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const double fraction = static_cast<double>(row) / std::max(options_.rows - 1, 1);
      const double label = range_.high - fraction * (range_.high - range_.low);
      const std::size_t end = rows_[row].find_last_not_of(' ');
      const std::string line = end == std::string::npos ? "" : rows_[row].substr(0, end + 1);
      all += fmt::format("{:8.4f} |{}\n", label, line);
    }
    all +=
        fmt::format("{:8} +{}\n", "", std::string(static_cast<std::size_t>(options_.columns), '-'));
    const std::string last = fmt::format("step {}", last_);
    all += fmt::format("{:10}{:<{}}{}\n", "", fmt::format("step {}", first_),
                       std::max(1, options_.columns - static_cast<int>(last.size())), last);
    return all;
  }

 private:
  CurveOptions options_;
  Range range_;
  std::int64_t first_;
  std::int64_t last_;
  std::vector<std::string> rows_;
};

}  // namespace

std::string loss_curve(std::span<const StepRecord> records, const CurveOptions& options) {
  QD_CHECK(options.columns > 1 && options.rows > 1);
  const Range range = range_of(records);
  if (records.size() < 2 || !(range.low <= range.high)) return {};
  Canvas canvas(options, range, records.front().step, records.back().step);
  for (const StepRecord& record : records) canvas.put(record.step, record.loss, '.');
  for (const StepRecord& record : records) {
    if (record.validation_loss) canvas.put(record.step, *record.validation_loss, 'o');
  }
  return canvas.text();
}

}  // namespace quadrille
