// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Generation beside its products and the reading of its weights.

#include <fmt/format.h>

#include "bench/folder.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/infer/generation_speed.h"

namespace quadrille {
namespace {

constexpr double kAim = 0.8;
constexpr double kBatchAim = 3.5;
constexpr std::int64_t kAimedBatch = 8;

/// `amount` a second, by round.
std::vector<double> rates(const std::vector<Seconds>& rounds, double amount) {
  std::vector<double> all;
  for (const Seconds round : rounds) all.push_back(amount / round.count());
  return all;
}

void add_prompt(const GenerationSpeed& speed, const GenerateBench& bench, const std::string& what,
                BenchReport& report) {
  const auto tokens = static_cast<double>(bench.prompt);
  const std::vector<double> mine = rates(speed.prompt, tokens);
  const std::vector<double> products = rates(speed.products, tokens);
  report.rows.push_back({.name = fmt::format("prompt of {} tokens, {}", bench.prompt, what),
                         .unit = "tokens/s",
                         .value = figure_of(mine),
                         .more_is_better = true,
                         .peers = {{"its matrix products alone", figure_of(products),
                                    ratio_of(mine, products), kAim}}});
}

void add_decode(const GenerationSpeed& speed, const std::string& what, BenchReport& report) {
  // A token of one sequence reads every weight.
  std::vector<double> limit = rates(speed.read, static_cast<double>(speed.read_bytes.count()));
  for (double& rate : limit) rate /= static_cast<double>(speed.weights.count());
  std::vector<double> alone;
  for (const GenerationSpeed::Decode& decode : speed.decode) {
    const std::vector<double> mine = rates(decode.step, static_cast<double>(decode.batch));
    BenchRow row{.name = fmt::format("decoding {} sequence{}, {}", decode.batch,
                                     decode.batch == 1 ? "" : "s", what),
                 .unit = "tokens/s",
                 .value = figure_of(mine),
                 .more_is_better = true,
                 .peers = {}};
    if (decode.batch == 1) {
      alone = mine;
      row.peers.push_back(
          {"reading the weights once a token", figure_of(limit), ratio_of(mine, limit), kAim});
    } else if (!alone.empty()) {
      row.peers.push_back({"one sequence", figure_of(alone), ratio_of(mine, alone),
                           decode.batch == kAimedBatch ? std::optional(kBatchAim) : std::nullopt});
    }
    report.rows.push_back(std::move(row));
  }
}

}  // namespace

Result<BenchReport> bench_generate(const GenerateBench& bench, const BenchSetting& setting) {
  QD_ASSIGN_OR_RETURN(BenchReport report, new_report("generate"));
  QD_ASSIGN_OR_RETURN(const int threads, internal::threads_of(setting));
  QD_RETURN_IF_ERROR(internal::bind_pool(threads));
  const std::unique_ptr<Device> device = make_host_device();
  for (const Precision precision : bench.precisions) {
    const std::string what(kPrecisionText.text(precision));
    setting.progress("generate: " + what);
    QD_ASSIGN_OR_RETURN(const GenerationSpeed speed,
                        measure_generation(*device, {.model = bench.model,
                                                     .precision = precision,
                                                     .prompt = bench.prompt,
                                                     .steps = bench.steps,
                                                     .rounds = setting.repetitions}));
    add_prompt(speed, bench, what, report);
    add_decode(speed, what, report);
  }
  report.notes.push_back(fmt::format(
      "{} threads. Random weights and tokens. The reading is of the fp32 matrices.", threads));
  return report;
}

}  // namespace quadrille
