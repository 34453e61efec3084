// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Medians and spreads, and a report's head.

#include <fmt/format.h>

#include <algorithm>

#include "quadrille/base/check.h"
#include "quadrille/base/version.h"
#include "quadrille/bench/report.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/kernels/matmul.h"

namespace quadrille {

Figure figure_of(std::span<const double> samples) {
  QD_CHECK(!samples.empty());
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  const double median =
      sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  return {median, sorted.front(), sorted.back(), static_cast<std::int64_t>(sorted.size())};
}

Figure ratio_of(std::span<const double> values, std::span<const double> peers) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(values.size(), peers.size()); ++i) {
    ratios.push_back(values[i] / peers[i]);
  }
  return figure_of(ratios);
}

Result<BenchReport> new_report(std::string name) {
  QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
  const BuildVersion& build = build_version();
  BenchReport report;
  report.name = std::move(name);
  report.date = utc_now_text();
  report.machine = fmt::format("{}, {} cores, {} memory, {}", host.processor, host.cores.size(),
                               to_text(host.memory), host.instruction_set);
  report.build = fmt::format("quadrille {} ({}), {}, {}", build.version, build.revision,
                             build.compiler, kernels::matmul_library());
  return report;
}

}  // namespace quadrille
