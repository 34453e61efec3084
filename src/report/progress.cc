// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/report/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "quadrille/base/text.h"

namespace quadrille {
namespace {

double median_seconds(std::span<const StepRecord> recent) {
  std::vector<double> seconds;
  for (const StepRecord& record : recent) seconds.push_back(record.seconds.count());
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace

std::string progress_line(std::span<const StepRecord> recent, const ProgressOptions& options) {
  QD_CHECK(!recent.empty());
  const StepRecord& last = recent.back();
  const double seconds = median_seconds(recent);
  std::string line = fmt::format("step {}/{}  loss {:.4f}", last.step, options.steps, last.loss);
  if (last.validation_loss) line += fmt::format("  validation {:.4f}", *last.validation_loss);
  if (seconds > 0) {
    line +=
        fmt::format("  {} tokens/s",
                    grouped(static_cast<long long>(static_cast<double>(last.tokens) / seconds)));
  }
  line += last.mfu ? fmt::format("  MFU {:.1f}%", 100 * *last.mfu) : std::string("  MFU n/a");
  line += fmt::format("  lr {:.2e}", last.learning_rate);
  const std::int64_t left = options.steps - last.step;
  if (left > 0) line += "  " + to_text(Seconds(seconds * static_cast<double>(left))) + " left";
  if (line.size() > static_cast<std::size_t>(options.columns)) {
    line.resize(static_cast<std::size_t>(options.columns));
  }
  return line;
}

}  // namespace quadrille
