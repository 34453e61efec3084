// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Collectives beside Open MPI's.

#include <fmt/format.h>

#include <algorithm>

#include "bench/comm_loops.h"
#include "bench/folder.h"
#include "bench/limits.h"
#include "quadrille/base/file.h"
#include "quadrille/base/text.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/train/launched.h"

namespace quadrille {
namespace {

using internal::Collective;
using internal::CommSamples;

constexpr const char* kResult = "/collectives.json";
constexpr double kStreamAim = 0.8;
constexpr std::int64_t kLargest = std::int64_t{64} << 20;

/// How many times Open MPI's rate an all-reduce should have.
std::optional<double> peer_aim(Collective collective, std::int64_t bytes, bool oversubscribed) {
  if (collective != Collective::kAllReduce || bytes < 16 << 10) return std::nullopt;
  if (oversubscribed) return 2.0;
  if (bytes <= 1 << 20) return 4.0;
  if (bytes <= 16 << 20) return 2.5;
  return bytes >= kLargest ? std::optional(5.0) : std::nullopt;
}

std::vector<double> rates(std::int64_t bytes, const std::vector<double>& seconds) {
  std::vector<double> all;
  for (const double each : seconds) all.push_back(static_cast<double>(bytes) / each);
  return all;
}

class RanksBench {
 public:
  RanksBench(const CommBench& bench, const BenchSetting& setting, int ranks, int cores)
      : bench_(bench), setting_(setting), ranks_(ranks), oversubscribed_(ranks > cores) {
    plan_.bytes = bench.bytes;
    plan_.repetitions = setting.repetitions;
  }

  Result<void> run(const std::string& folder, BenchReport& report) {
    setting_.progress(fmt::format("comm: {} ranks", ranks_));
    const double before = internal::ping_pong_seconds();
    std::vector<CommSamples> processes;
    if (mpi_is_built() && !setting_.program.empty()) {
      QD_ASSIGN_OR_RETURN(processes, by_processes(fmt::format("{}/mpi-{}", folder, ranks_)));
    }
    QD_ASSIGN_OR_RETURN(const std::vector<CommSamples> threads, by_threads());
    stream_ = quarter_stream();
    for (std::size_t i = 0; i < threads.size(); ++i) {
      if (!processes.empty()) add(processes[i], processes[i].peers, "MPI processes", report);
      add(threads[i], processes.empty() ? std::vector<double>() : processes[i].peers, "threads",
          report);
    }
    report.rows.push_back(
        {.name = fmt::format("cache line from core to core, beside {} ranks", ranks_),
         .unit = "s",
         .value = figure_of(std::vector{before, internal::ping_pong_seconds()}),
         .peers = {}});
    return {};
  }

 private:
  Result<std::vector<CommSamples>> by_threads() const {
    std::vector<CommSamples> samples;
    QD_RETURN_IF_ERROR(run_threads(ranks_, {}, [&](World& world) -> Result<void> {
      QD_ASSIGN_OR_RETURN(auto mine, internal::time_collectives(world, plan_));
      if (world.rank() == Rank{0}) samples = std::move(mine);
      return {};
    }));
    return samples;
  }

  Result<std::vector<CommSamples>> by_processes(const std::string& directory) const {
    ModelSpec model = gpt2_124m();
    model.layers = 1;
    model.hidden = model.ffn = 16;
    model.heads = 1;
    std::vector<std::string> sizes;
    for (const std::int64_t bytes : bench_.bytes) sizes.push_back(std::to_string(bytes));
    QD_RETURN_IF_ERROR(internal::launch_by_mpi(
        internal::bench_job(model, {ranks_, 1}, ranks_, "unused"), directory,
        {setting_.program, "bench-rank", "--sizes", join(sizes, ","), "--repetitions",
         std::to_string(plan_.repetitions)}));
    QD_ASSIGN_OR_RETURN(const Json json, read_json_file(directory + kResult));
    return internal::comm_samples_from(json);
  }

  /// Two reads and two writes of each byte bound an all-reduce of two ranks.
  std::vector<double> quarter_stream() const {
    internal::Traffic traffic(2, kLargest);
    return internal::bandwidth(
        traffic, 1, [&] { traffic.accumulate(); }, plan_.repetitions);
  }

  void add(const CommSamples& samples, const std::vector<double>& peers, const char* what,
           BenchReport& report) const {
    const std::vector<double> mine = rates(samples.bytes, samples.ours);
    BenchRow row{
        .name = fmt::format("{} of {}, {} {}", internal::kCollectiveText.text(samples.collective),
                            to_text(Bytes(samples.bytes)), ranks_, what),
        .unit = "B/s",
        .value = figure_of(mine),
        .more_is_better = true,
        .peers = {}};
    if (!peers.empty()) {
      const std::vector<double> theirs = rates(samples.bytes, peers);
      row.peers.push_back({"Open MPI", figure_of(theirs), ratio_of(mine, theirs),
                           peer_aim(samples.collective, samples.bytes, oversubscribed_)});
    }
    if (samples.collective == Collective::kAllReduce && samples.bytes >= kLargest) {
      row.peers.push_back({"a = b = a + b over memory", figure_of(stream_), ratio_of(mine, stream_),
                           oversubscribed_ ? std::nullopt : std::optional(kStreamAim)});
    }
    report.rows.push_back(std::move(row));
  }

  const CommBench& bench_;
  const BenchSetting& setting_;
  int ranks_;
  bool oversubscribed_;
  internal::CommPlan plan_;
  std::vector<double> stream_;
};

}  // namespace

Result<BenchReport> bench_comm(const CommBench& bench, const BenchSetting& setting) {
  if (bench.ranks.empty() || bench.bytes.empty()) {
    return fail(Code::kInvalid, "a benchmark of collectives needs ranks and sizes");
  }
  for (const std::int64_t bytes : bench.bytes) {
    for (const int ranks : bench.ranks) {
      if (bytes >= 1 && ranks >= 1 && bytes % (4 * ranks) == 0) continue;
      return fail(Code::kInvalid, fmt::format("{} bytes are no whole number of floats for each of "
                                              "{} ranks",
                                              bytes, ranks));
    }
  }
  QD_ASSIGN_OR_RETURN(BenchReport report, new_report("comm"));
  QD_ASSIGN_OR_RETURN(const internal::BenchFolder folder, internal::BenchFolder::make(setting));
  QD_ASSIGN_OR_RETURN(const int cores, internal::threads_of({}));
  QD_RETURN_IF_ERROR(internal::bind_pool(cores));
  for (const int ranks : bench.ranks) {
    QD_RETURN_IF_ERROR(RanksBench(bench, setting, ranks, cores).run(folder.path(), report));
  }
  report.notes.push_back(fmt::format(
      "{} cores; more ranks than cores share them. Every rank writes its tensor, then all meet: "
      "above 1 MiB one call a sample, of tensors that take turns in 128 MiB; below, calls in a "
      "row. "
      "Open MPI's times are of the same processes in turns with ours; threads stand beside them "
      "from another moment.",
      cores));
  return report;
}

Result<void> run_comm_rank(const std::string& sizes, int repetitions) {
  internal::CommPlan plan;
  plan.repetitions = repetitions;
  plan.with_peer = true;
  for (const std::string& size : split(sizes, ',')) {
    plan.bytes.push_back(std::strtoll(size.c_str(), nullptr, 10));
  }
  return run_launched(
      [&plan](World& world, const TrainerOptions& options) -> Result<TrainingOutcome> {
        QD_ASSIGN_OR_RETURN(const std::vector<CommSamples> samples,
                            internal::time_collectives(world, plan));
        if (world.rank() == Rank{0}) {
          QD_RETURN_IF_ERROR(write_file_atomically(options.run_directory + kResult,
                                                   write_json(internal::to_json(samples))));
        }
        return TrainingOutcome{};
      });
}

}  // namespace quadrille
