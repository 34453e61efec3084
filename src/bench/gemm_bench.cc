// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Our matrix product at a model's own shapes.

#include <fmt/format.h>

#include "bench/folder.h"
#include "bench/limits.h"
#include "bench/products.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/kernels/rounding.h"

namespace quadrille {
namespace {

using internal::Product;

/// FLOP/s of each repetition.
std::vector<double> rates_of(const Product& product, const std::vector<double>& seconds) {
  std::vector<double> rates;
  for (const double each : seconds) rates.push_back(product.flops() / each);
  return rates;
}

BenchPeer beside(std::string name, const std::vector<double>& mine,
                 const std::vector<double>& peer) {
  return {std::move(name), figure_of(peer), ratio_of(mine, peer), std::nullopt};
}

std::string name_of(const Product& product) {
  return fmt::format("{} {}x{}x{}{}", product.name, product.m, product.n, product.k,
                     product.bf16 ? " bf16" : "");
}

BenchRow row_of(const Product& product, double peak, int repetitions) {
  const auto ours = internal::prepare_ours(product);
  const auto onednn = internal::prepare_onednn(product);
  std::vector<std::function<void()>> calls{[&] { ours->run(); }, [&] { onednn->run(); }};
  std::unique_ptr<internal::PreparedProduct> openblas;
  if (!product.bf16) {
    openblas = internal::prepare_openblas(product);
    calls.emplace_back([&] { openblas->run(); });
  }
  const auto seconds = internal::time_interleaved(calls, repetitions);
  const std::vector<double> mine = rates_of(product, seconds[0]);
  BenchRow row{.name = name_of(product),
               .unit = "FLOP/s",
               .value = figure_of(mine),
               .more_is_better = true,
               .peers = {beside(product.bf16 ? "oneDNN, of factors that are bf16" : "oneDNN", mine,
                                rates_of(product, seconds[1]))}};
  if (!product.bf16) row.peers.push_back(beside("OpenBLAS", mine, rates_of(product, seconds[2])));
  const Figure limit = figure_of(peak);
  row.peers.push_back({"fp32 multiply-adds in registers", limit,
                       figure_of(row.value.median / limit.median), std::nullopt});
  return row;
}

}  // namespace

Result<BenchReport> bench_gemm(const GemmBench& bench, const BenchSetting& setting) {
  QD_ASSIGN_OR_RETURN(BenchReport report, new_report("gemm"));
  QD_ASSIGN_OR_RETURN(const int threads, internal::threads_of(setting));
  QD_RETURN_IF_ERROR(internal::bind_pool(threads));
  const double peak = internal::multiply_add_peak();
  const bool has_bf16 = bench.bf16 && kernels::bf16_products() == kernels::ProductPrecision::kBf16;
  for (const bool bf16 : {false, true}) {
    if (bf16 && !has_bf16) continue;
    for (const Product& product : internal::step_products(bench.model, bench.tokens, bf16)) {
      setting.progress("gemm: " + name_of(product));
      report.rows.push_back(row_of(product, peak, setting.repetitions));
    }
  }
  report.notes.push_back(fmt::format(
      "{} threads. Warm operands. Ours in bf16 rounds its fp32 factors in the call.", threads));
  if (bench.bf16 && !has_bf16) report.notes.emplace_back("This processor has no bf16 products.");
  return report;
}

}  // namespace quadrille
