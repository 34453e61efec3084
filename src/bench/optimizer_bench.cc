// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// AdamW beside the memory's own rate.

#include <fmt/format.h>

#include "bench/folder.h"
#include "bench/limits.h"
#include "bench/products.h"
#include "bench/tensors.h"
#include "quadrille/base/text.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/kernels/adamw.h"
#include "quadrille/optim/optimizer.h"

namespace quadrille {
namespace {

constexpr double kAim = 0.8;
constexpr int kArrays = 7;  // 4 read, 3 written

Shape shape_of(const ParameterShape& parameter) {
  return parameter.shape.size() == 1 ? Shape{parameter.shape[0]}
                                     : Shape{parameter.shape[0], parameter.shape[1]};
}

/// All tensors of a model with gradients, and their optimizer.
Result<std::unique_ptr<AdamWOptimizer>> optimizer_of(internal::Tensors& tensors,
                                                     const ModelSpec& model) {
  std::vector<OptimizedTensor> all;
  for (const ParameterShape& parameter : parameter_shapes(model)) {
    QD_ASSIGN_OR_RETURN(const TensorView value, tensors.make(shape_of(parameter)));
    QD_ASSIGN_OR_RETURN(const TensorView gradient, tensors.make(shape_of(parameter)));
    all.push_back({parameter.name, value, gradient, parameter.decayed});
  }
  return AdamWOptimizer::create({}, tensors.stream(), tensors.pool(), std::move(all));
}

std::vector<double> rates(const std::vector<double>& seconds, double bytes) {
  std::vector<double> all;
  for (const double each : seconds) all.push_back(bytes / each);
  return all;
}

}  // namespace

Result<BenchReport> bench_optimizer(const OptimizerBench& bench, const BenchSetting& setting) {
  QD_ASSIGN_OR_RETURN(BenchReport report, new_report("optimizer"));
  QD_ASSIGN_OR_RETURN(const int threads, internal::threads_of(setting));
  QD_RETURN_IF_ERROR(internal::bind_pool(threads));
  const std::int64_t elements = parameter_count(bench.model);
  internal::Tensors tensors;
  QD_ASSIGN_OR_RETURN(const auto optimizer, optimizer_of(tensors, bench.model));
  QD_ASSIGN_OR_RETURN(const TensorView arrays, tensors.make({4, elements}));
  const kernels::AdamW adamw{.parameter = arrays.flat(0, elements),
                             .gradient = arrays.flat(elements, elements),
                             .first_moment = arrays.flat(2 * elements, elements),
                             .second_moment = arrays.flat(3 * elements, elements),
                             .learning_rate = 1e-4F,
                             .weight_decay = 0.1F};
  internal::Traffic traffic(4, elements * element_bytes(DType::kF32));
  Result<void> stepped;
  std::int64_t step = 0;
  setting.progress("optimizer: " + grouped(elements) + " parameters");
  const auto seconds = internal::time_interleaved(
      {[&] { kernels::adamw(tensors.stream(), adamw); },
       [&] {
         auto outcome = optimizer->step({.step = ++step, .learning_rate = 1e-4});
         if (!outcome) stepped = fail(outcome.error());
       },
       [&] { traffic.update(); }, [&] { traffic.update_past_caches(); }, [&] { traffic.read(); }},
      setting.repetitions);
  QD_RETURN_IF_ERROR(stepped);
  const double bytes = 4.0 * static_cast<double>(elements);
  const double counted = static_cast<double>(traffic.bytes());
  const std::vector<double> plain = rates(seconds[2], kArrays * counted);
  const std::vector<double> streamed = rates(seconds[3], kArrays * counted);
  const std::vector<double> kernel = rates(seconds[0], kArrays * bytes);
  report.rows.push_back({.name = fmt::format("AdamW over {} parameters", grouped(elements)),
                         .unit = "B/s",
                         .value = figure_of(kernel),
                         .more_is_better = true,
                         .peers = {{"a loop that reads 4 and writes 3 arrays", figure_of(plain),
                                    ratio_of(kernel, plain), kAim},
                                   {"the same past the caches", figure_of(streamed),
                                    ratio_of(kernel, streamed), std::nullopt}}});
  // The norm reads the gradients once more.
  std::vector<double> least;
  for (std::size_t i = 0; i < seconds[2].size(); ++i) {
    least.push_back((seconds[2][i] + seconds[4][i]) * bytes / counted);
  }
  report.rows.push_back({.name = "optimizer step (norm, clip, AdamW) over the model's tensors",
                         .unit = "s",
                         .value = figure_of(seconds[1]),
                         .peers = {{"those loops, and reading one array", figure_of(least),
                                    ratio_of(seconds[1], least), 1 / kAim}}});
  report.notes.push_back(fmt::format("{} threads.", threads));
  return report;
}

}  // namespace quadrille
