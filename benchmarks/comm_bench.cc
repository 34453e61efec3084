// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// All-reduce in shared memory beside MPI's own, in one run: `mpirun -n 2 --bind-to core
// comm_bench`, and `comm_bench threads N` for ranks that are threads. A line has the size, the
// median time and rate of ours, the median of MPI's, the median of the ratios of calls that
// followed each other with their 10th and 90th percentile, and one way of a cache line between two
// cores (when it is far above 50 ns the host has put them on different chips). The last line
// compares the largest size with a quarter of the rate at which the ranks sum arrays of their own
// in place.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "quadrille/bench/collective_times.h"
#include "quadrille/comm/yardstick.h"

namespace quadrille {
namespace {

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

void print(const CollectiveTimes& times) {
  const double ours = quantile(times.ours, 0.5);
  std::printf("%10s %10.1f us %7.2f GB/s", to_text(times.bytes).c_str(), ours * 1e6,
              static_cast<double>(times.bytes.count()) / ours / 1e9);
  if (!times.library.empty()) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < times.ours.size(); ++i) {
      ratios.push_back(times.library[i] / times.ours[i]);
    }
    std::printf("   MPI %10.1f us   ratio %6.2f (%.2f-%.2f)", quantile(times.library, 0.5) * 1e6,
                quantile(ratios, 0.5), quantile(ratios, 0.1), quantile(ratios, 0.9));
  }
  std::printf("   ping-pong %.0f ns\n", times.ping_pong_ns);
}

Result<void> rank_body(World& world) {
  CollectiveBench bench;
  for (std::int64_t kib : {4, 16, 64, 256, 1024, 4096, 16384, 65536}) {
    bench.sizes.push_back(Bytes(kib << 10));
  }
  QD_ASSIGN_OR_RETURN(const double rate, in_place_sum_rate(world));
  QD_ASSIGN_OR_RETURN(const auto all, time_all_reduce(world, bench));
  if (world.rank() != Rank{0}) return {};
  std::printf("%d ranks (%s %s)\n", world.size(), std::string(world.backend()).c_str(),
              library_name().c_str());
  for (const CollectiveTimes& times : all) print(times);
  const double last =
      static_cast<double>(all.back().bytes.count()) / quantile(all.back().ours, 0.5);
  std::printf("in-place sums of own arrays: %.1f GB/s; a quarter: %.2f; reached of it: %.0f%%\n",
              rate / 1e9, rate / 4e9, 100 * last / (rate / 4));
  return {};
}

int run(int count, char** arguments) {
  const bool threads = count == 3 && std::string_view(arguments[1]) == "threads";
  WorldOptions options;
  options.shared_memory = count != 2 || std::string_view(arguments[1]) != "messages";
  const auto result = threads ? run_threads(std::atoi(arguments[2]), options, rank_body)
                              : run_mpi(options, rank_body);
  if (!result) std::fprintf(stderr, "%s\n", result.error().to_text().c_str());
  return result ? 0 : 1;
}

}  // namespace
}  // namespace quadrille

int main(int count, char** arguments) { return quadrille::run(count, arguments); }
