// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The training step beside its own products.

#include <fmt/format.h>

#include <algorithm>

#include "bench/folder.h"
#include "bench/limits.h"
#include "bench/products.h"
#include "bench/resident.h"
#include "bench/turns.h"
#include "quadrille/base/text.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/comm/world.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/kernels/rounding.h"
#include "quadrille/plan/activation_arena.h"
#include "quadrille/report/profile_table.h"
#include "quadrille/schedule/builders.h"

namespace quadrille {
namespace {

using internal::Contestant;

constexpr int kWarmups = 2;
constexpr double kFp32Aim = 1.25;
constexpr double kBf16Aim = 0.68;
constexpr double kRoundedAim = 1.10;
constexpr double kRanksAim = 1.12;
constexpr double kMostPageFaults = 100;
constexpr double kMemoryAim = 1.05;

std::span<const double> measured(const std::vector<double>& samples) {
  return std::span(samples).subspan(kWarmups);
}

/// A contestant with what stands beside it.
struct Entry {
  std::string what;
  Precision precision = Precision::kFp32;
  int ranks = 1;
  std::unique_ptr<internal::ProductSum> products;
  std::vector<double> product_seconds;
  double resident_growth = 0;  ///< Bytes, by the end of the first step, before others begin.
};

std::string shape_text(StepTokens tokens) {
  return fmt::format("{} x {} tokens", tokens.sequences, tokens.tokens);
}

std::vector<double> seconds_of(const std::vector<StepRecord>& records) {
  std::vector<double> seconds;
  for (const StepRecord& record : records) seconds.push_back(record.seconds.count());
  return seconds;
}

BenchPeer peer_of(std::string name, std::span<const double> values, std::span<const double> peers,
                  std::optional<double> aim) {
  return {std::move(name), figure_of(peers), ratio_of(values, peers), aim};
}

/// All runs of one shape of tokens.
class ShapeBench {
 public:
  ShapeBench(const StepBench& bench, const BenchSetting& setting, StepTokens tokens, int threads)
      : bench_(bench), setting_(setting), tokens_(tokens), threads_(threads) {}

  Result<void> run(const std::string& folder, BenchReport& report) {
    const std::string file = folder + "/tokens.bin";
    const std::int64_t most = std::max<std::int64_t>(8 * tokens_.sequences * tokens_.tokens, 4096);
    QD_RETURN_IF_ERROR(internal::write_tokens(file, most, bench_.model.vocab));
    enter_all(file);
    const std::string own = fmt::format("{}/{}x{}", folder, tokens_.sequences, tokens_.tokens);
    const int rounds = kWarmups + setting_.repetitions;
    QD_RETURN_IF_ERROR(
        internal::run_in_turns(contestants_, rounds, own, [&](int round) -> Result<void> {
          setting_.progress(
              fmt::format("step, {}: round {} of {}", shape_text(tokens_), round + 1, rounds));
          ping_pong_.push_back(internal::ping_pong_seconds());
          if (round != rounds / 2 || !has_mpi()) return {};
          return run_mpi(file, own);
        }));
    write(report);
    return {};
  }

 private:
  [[nodiscard]] bool has_ranks() const {
    return bench_.ranks > 1 && tokens_.sequences % bench_.ranks == 0 &&
           threads_ % bench_.ranks == 0;
  }
  [[nodiscard]] bool has_mpi() const {
    return has_ranks() && mpi_is_built() && !setting_.program.empty();
  }

  void enter_all(const std::string& file) {
    for (const Precision precision : bench_.precisions) enter(precision, 1, file);
    if (has_ranks()) enter(Precision::kFp32, bench_.ranks, file);
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
      contestants_[i].between = [this, i](int round) { after_step(i, round); };
    }
  }

  void enter(Precision precision, int ranks, const std::string& file) {
    const int threads = threads_ / ranks;
    Contestant contestant;
    contestant.name = fmt::format("{}, {}, {} rank{} of {} thread{}",
                                  kPrecisionText.text(precision), shape_text(tokens_), ranks,
                                  ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
    contestant.job = internal::bench_job(bench_.model, tokens_, ranks, file);
    contestant.job.training.precision = precision;
    contestant.threads = threads;
    entries_.push_back({.what = contestant.name, .precision = precision, .ranks = ranks});
    contestants_.push_back(std::move(contestant));
  }

  void after_step(std::size_t index, int round) {
    Entry& entry = entries_[index];
    if (index == 0 && round == 0) {
      entry.resident_growth = static_cast<double>(internal::resident_bytes() - resident_at_start_);
    }
    if (entry.ranks > 1 || round < kWarmups) return;
    if (entry.products == nullptr) {
      const bool bf16 = entry.precision == Precision::kBf16 && is_native();
      entry.products = std::make_unique<internal::ProductSum>(
          internal::step_products(bench_.model, tokens_.sequences * tokens_.tokens, bf16));
      static_cast<void>(entry.products->run());
    }
    entry.product_seconds.push_back(entry.products->run());
  }

  static bool is_native() { return kernels::bf16_products() == kernels::ProductPrecision::kBf16; }

  Result<void> run_mpi(const std::string& file, const std::string& folder) {
    setting_.progress("step: the same by MPI ranks");
    JobSpec job = internal::bench_job(bench_.model, tokens_, bench_.ranks, file);
    job.training.steps = kWarmups + setting_.repetitions;
    QD_ASSIGN_OR_RETURN(const std::vector<StepRecord> rows,
                        internal::train_by_mpi(job, folder + "/mpi", setting_.program));
    mpi_seconds_ = seconds_of(rows);
    return {};
  }

  void write(BenchReport& report) {
    for (std::size_t i = 0; i < entries_.size(); ++i) report.rows.push_back(time_row(i));
    if (!mpi_seconds_.empty()) report.rows.push_back(mpi_row());
    add_memory(report);
    report.rows.push_back({.name = "cache line from core to core, beside " + shape_text(tokens_),
                           .unit = "s",
                           .value = figure_of(ping_pong_),
                           .peers = {}});
    if (!bench_.profile) return;
    for (const Contestant& contestant : contestants_) {
      report.notes.push_back(contestant.name + ":\n" + profile_table(contestant.profile, {}));
    }
  }

  BenchRow time_row(std::size_t index) {
    const Entry& entry = entries_[index];
    const std::vector<double>& seconds = contestants_[index].seconds;
    BenchRow row{
        .name = entry.what, .unit = "s", .value = figure_of(measured(seconds)), .peers = {}};
    const auto first = std::span<const double>(contestants_[0].seconds).subspan(kWarmups);
    if (entry.ranks > 1) {
      row.peers.push_back(peer_of(fmt::format("one rank of {} threads", threads_),
                                  measured(seconds), first, kRanksAim));
      return row;
    }
    const bool is_fp32 = entry.precision == Precision::kFp32;
    row.peers.push_back(peer_of("its linear products in oneDNN", measured(seconds),
                                entry.product_seconds,
                                is_fp32 ? std::optional(kFp32Aim) : std::nullopt));
    if (!is_fp32 && entries_[0].precision == Precision::kFp32) {
      row.peers.push_back(peer_of("the step in fp32", measured(seconds), first,
                                  is_native() ? kBf16Aim : kRoundedAim));
    }
    return row;
  }

  BenchRow mpi_row() {
    const std::vector<double> one = seconds_of(contestants_[0].records);
    const std::span<const double> mine = measured(mpi_seconds_);
    const Figure value = figure_of(mine);
    const Figure other = figure_of(measured(one));
    // Not interleaved step by step: the ratio of the medians.
    return {.name = fmt::format("fp32, {}, {} MPI ranks of {} thread{}", shape_text(tokens_),
                                bench_.ranks, threads_ / bench_.ranks,
                                threads_ == bench_.ranks ? "" : "s"),
            .unit = "s",
            .value = value,
            .peers = {{fmt::format("one rank of {} threads", threads_), other,
                       figure_of(value.median / other.median), kRanksAim}}};
  }

  void add_memory(BenchReport& report) {
    const Contestant& first = contestants_[0];
    const auto steps = static_cast<double>(std::max<std::int64_t>(first.profile.steps, 1));
    const std::string& what = entries_[0].what;
    // The median: starting MPI's processes makes this one copy its pages once, on writing.
    const Figure faults = figure_of(measured(first.page_faults));
    report.rows.push_back({.name = "page faults of a step, " + what,
                           .unit = "pages",
                           .value = faults,
                           .peers = {{"the most there should be", figure_of(kMostPageFaults),
                                      figure_of(faults.median / kMostPageFaults), 1.0}}});
    report.rows.push_back({.name = "leases of the pool in a step, " + what,
                           .unit = "leases",
                           .value = figure_of(first.profile.leases / steps),
                           .peers = {}});
    const double parameters = 16 * static_cast<double>(parameter_count(bench_.model));
    const auto program =
        build_single_stage({.ranks = 1, .layers = layer_count(bench_.model), .micro_batches = 1});
    const auto activations = static_cast<double>(
        activation_arena(bench_.model, {tokens_.sequences, tokens_.tokens}, program->ranks[0])
            .layout.total.count());
    const double formula = parameters + activations;
    const std::string name = fmt::format("16 B x {} parameters + {} of activations",
                                         grouped(parameter_count(bench_.model)),
                                         to_text(Bytes(static_cast<std::int64_t>(activations))));
    const auto add = [&](const std::string& row, double bytes) {
      report.rows.push_back(
          {.name = row + what,
           .unit = "B",
           .value = figure_of(bytes),
           .peers = {{name, figure_of(formula), figure_of(bytes / formula), kMemoryAim}}});
    };
    add("peak of the pool, ", static_cast<double>(first.records.back().peak.count()));
    add("resident memory after the first step, ", entries_[0].resident_growth);
  }

  const StepBench& bench_;
  const BenchSetting& setting_;
  StepTokens tokens_;
  int threads_;
  std::int64_t resident_at_start_ = internal::resident_bytes();
  std::vector<Contestant> contestants_;
  std::vector<Entry> entries_;
  std::vector<double> mpi_seconds_;
  std::vector<double> ping_pong_;
};

}  // namespace

ModelSpec gpt2_124m() {
  ModelSpec model;
  model.layers = 12;
  model.hidden = 768;
  model.heads = 12;
  model.ffn = 4 * 768;
  model.vocab = 50257;
  model.context = 1024;
  return model;
}

Result<BenchReport> bench_step(const StepBench& bench, const BenchSetting& setting) {
  if (bench.tokens.empty() || bench.precisions.empty()) {
    return fail(Code::kInvalid, "a benchmark of the step needs tokens and a precision");
  }
  QD_ASSIGN_OR_RETURN(BenchReport report, new_report("step"));
  QD_ASSIGN_OR_RETURN(const internal::BenchFolder folder, internal::BenchFolder::make(setting));
  QD_ASSIGN_OR_RETURN(const int threads, internal::threads_of(setting));
  for (const StepTokens tokens : bench.tokens) {
    if (tokens.sequences < 1 || tokens.tokens < 1 || tokens.tokens > bench.model.context) {
      return fail(Code::kInvalid,
                  fmt::format("{} x {} tokens do not fit a context of {}", tokens.sequences,
                              tokens.tokens, bench.model.context));
    }
    QD_RETURN_IF_ERROR(ShapeBench(bench, setting, tokens, threads).run(folder.path(), report));
  }
  report.notes.push_back(
      "A step is from one step's end to the next one's: data, forward, backward, clipping, AdamW, "
      "metrics. Products: one set of buffers for each kind, so their operands are warm.");
  return report;
}

}  // namespace quadrille
