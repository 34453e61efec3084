// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Saving and loading beside the disk, and what a save costs the steps beside it.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bench/disk.h"
#include "bench/folder.h"
#include "bench/tensors.h"
#include "bench/turns.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

constexpr double kAim = 0.8;
constexpr double kAsynchronousAim = 1.05;
constexpr int kWarmups = 2;
constexpr int kStepsPerSave = 8;

/// Values and both moments of every parameter, as a run saves them.
Result<std::vector<CheckpointTensor>> tensors_of(internal::Tensors& tensors,
                                                 const ModelSpec& model) {
  std::vector<CheckpointTensor> all;
  for (const ParameterShape& parameter : parameter_shapes(model)) {
    const Shape shape = parameter.shape.size() == 1 ? Shape{parameter.shape[0]}
                                                    : Shape{parameter.shape[0], parameter.shape[1]};
    for (const char* prefix : {"", "optimizer.first_moment.", "optimizer.second_moment."}) {
      QD_ASSIGN_OR_RETURN(const TensorView view, tensors.make(shape));
      all.push_back({prefix + parameter.name, view});
    }
  }
  return all;
}

struct Times {
  std::vector<double> saved;
  std::vector<double> loaded;
  std::vector<double> written;
  std::vector<double> read;
};

/// One of each, one after the other.
Result<void> measure(const std::string& folder, internal::Tensors& tensors,
                     std::span<const CheckpointTensor> all, CheckpointSaver& saver,
                     std::int64_t step, Times& times) {
  Seconds begin = monotonic_now();
  TrainingState state;
  state.step = step;
  state.job = to_json(JobSpec());
  state.model = Json::object();
  state.tokenizer = "bytes";
  QD_RETURN_IF_ERROR(saver.save(state));
  const std::vector<SaveOutcome> outcomes = saver.wait();
  times.saved.push_back((monotonic_now() - begin).count());
  QD_CHECK(!outcomes.empty());
  if (outcomes.back().error) return fail(*outcomes.back().error);
  const auto bytes = outcomes.back().bytes.count();

  const std::string raw = folder + "/sequential";
  QD_ASSIGN_OR_RETURN(const double written, internal::write_sequentially(raw, bytes));
  times.written.push_back(written);
  QD_ASSIGN_OR_RETURN(const double read, internal::read_sequentially(raw));
  times.read.push_back(read);

  internal::forget_pages(folder + "/checkpoints");
  begin = monotonic_now();
  QD_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(outcomes.back().path));
  QD_RETURN_IF_ERROR(load_all(checkpoint, tensors.stream(), all));
  QD_RETURN_IF_ERROR(tensors.stream().synchronize());
  times.loaded.push_back((monotonic_now() - begin).count());
  return {};
}

BenchRow row_of(const std::string& name, double bytes, const std::vector<double>& mine,
                const std::string& peer, const std::vector<double>& theirs) {
  const auto rates = [bytes](const std::vector<double>& seconds) {
    std::vector<double> all;
    for (const double each : seconds) all.push_back(bytes / each);
    return all;
  };
  return {.name = name,
          .unit = "B/s",
          .value = figure_of(rates(mine)),
          .more_is_better = true,
          .peers = {{peer, figure_of(rates(theirs)), ratio_of(rates(mine), rates(theirs)), kAim}}};
}

Result<void> disk_rows(const CheckpointBench& bench, const BenchSetting& setting,
                       const std::string& folder, BenchReport& report) {
  internal::Tensors tensors;
  QD_ASSIGN_OR_RETURN(const auto all, tensors_of(tensors, bench.model));
  double bytes = 0;
  for (const CheckpointTensor& tensor : all) {
    bytes += static_cast<double>(tensor.view.bytes().count());
  }
  EventLog events = EventLog::nowhere();
  QD_ASSIGN_OR_RETURN(const auto saver,
                      CheckpointSaver::create({.directory = folder + "/checkpoints",
                                               .keep = 1,
                                               .asynchronous = false,
                                               .stream = &tensors.stream(),
                                               .events = &events},
                                              all));
  Times times;
  const int repetitions = std::min(setting.repetitions, 5);
  for (int i = 0; i <= repetitions; ++i) {
    setting.progress(fmt::format("checkpoint: {} of {}", i, repetitions));
    if (i == 1) times = Times();  // the first one touched memory
    QD_RETURN_IF_ERROR(measure(folder, tensors, all, *saver, i + 1, times));
  }
  const std::string size = to_text(Bytes(static_cast<std::int64_t>(bytes)));
  report.rows.push_back(row_of("save of " + size + ", to the disk", bytes, times.saved,
                               "writing as much in one file, 4 MiB at a time", times.written));
  report.rows.push_back(row_of("load of it, checked, pages forgotten", bytes, times.loaded,
                               "reading as much", times.read));
  return {};
}

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Steps without a save in flight, then as many with one.
Result<void> asynchronous_row(const CheckpointBench& bench, const BenchSetting& setting,
                              const std::string& folder, BenchReport& report) {
  const std::string file = folder + "/tokens.bin";
  QD_RETURN_IF_ERROR(internal::write_tokens(file, 65536, bench.model.vocab));
  QD_ASSIGN_OR_RETURN(const int threads, internal::threads_of(setting));
  std::vector<internal::Contestant> one(1);
  one[0].job = internal::bench_job(bench.model, bench.tokens, 1, file);
  one[0].job.checkpoint.every = kWarmups + kStepsPerSave;
  one[0].job.checkpoint.keep = 1;
  one[0].threads = threads;
  one[0].saves = true;
  const int rounds = kWarmups + 2 * kStepsPerSave;
  QD_RETURN_IF_ERROR(internal::run_in_turns(one, rounds, folder, [&](int round) -> Result<void> {
    setting.progress(fmt::format("checkpoint: step {} of {}", round + 1, rounds));
    return {};
  }));
  const std::span<const double> seconds(one[0].seconds);
  const double without = sum_of(seconds.subspan(kWarmups, kStepsPerSave)) / kStepsPerSave;
  const double with = sum_of(seconds.subspan(kWarmups + kStepsPerSave)) / kStepsPerSave;
  report.rows.push_back(
      {.name = fmt::format("step, mean of {} beside an asynchronous save", kStepsPerSave),
       .unit = "s",
       .value = figure_of(with),
       .peers = {{fmt::format("mean of the {} before it", kStepsPerSave), figure_of(without),
                  figure_of(with / without), kAsynchronousAim}}});
  return {};
}

}  // namespace

Result<BenchReport> bench_checkpoint(const CheckpointBench& bench, const BenchSetting& setting) {
  QD_ASSIGN_OR_RETURN(BenchReport report, new_report("checkpoint"));
  QD_ASSIGN_OR_RETURN(const internal::BenchFolder folder, internal::BenchFolder::make(setting));
  QD_RETURN_IF_ERROR(disk_rows(bench, setting, folder.path(), report));
  if (bench.asynchronous) {
    QD_RETURN_IF_ERROR(asynchronous_row(bench, setting, folder.path(), report));
  }
  report.notes.emplace_back("The disk is that of --folder, by default the temporary one's.");
  return report;
}

}  // namespace quadrille
