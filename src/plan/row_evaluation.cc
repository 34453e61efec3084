// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/row_evaluation.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace quadrille {
namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::string scale_of(std::int64_t devices) {
  if (devices <= 8) return "1-8";
  if (devices <= 64) return "9-64";
  return devices <= 512 ? "65-512" : "513+";
}

using Errors = std::map<std::string, std::vector<double>>;

std::map<std::string, ErrorSummary> summaries(const Errors& errors) {
  std::map<std::string, ErrorSummary> all;
  for (const auto& [name, values] : errors) all[name] = summarize(values);
  return all;
}

/// Useful flops of a step per device: products and causal attention, forward and twice backward.
double flops_per_device(const TrainingRun& run) {
  const TransformerShape& model = run.model;
  const auto s = static_cast<double>(model.sequence);
  const double matrices =
      static_cast<double>(model.layers) * model.layer_parameters() + model.embedding_parameters();
  const double attention =
      2 * static_cast<double>(model.layers) * s * static_cast<double>(model.hidden);
  const double repeats = run.layout.recompute == RecomputeKind::kFull ? 4.0 / 3 : 1;
  const double tokens = static_cast<double>(run.global_batch) * s;
  return 3 * (2 * matrices + attention) * repeats * tokens /
         static_cast<double>(run.layout.ranks());
}

double bubble_factor(const TrainingRun& run) {
  const auto p = static_cast<double>(run.layout.pipeline);
  const auto m = static_cast<double>(run.micro_batches());
  const bool zero = run.layout.schedule == PipelineKind::kZeroBubbleOne ||
                    run.layout.schedule == PipelineKind::kZeroBubbleTwo;
  return zero ? 1 : 1 + (p - 1) / (m * static_cast<double>(run.layout.interleave));
}

/// One set of layouts that differ in nothing else.
struct RankedSet {
  std::vector<double> predicted;
  std::vector<double> measured;
};

RankingSummary ranking(const std::vector<RankedSet>& sets) {
  constexpr std::size_t kLayoutsLeast = 4;
  RankingSummary summary;
  for (const RankedSet& set : sets) {
    if (set.predicted.size() < kLayoutsLeast) continue;
    const auto pick =
        std::min_element(set.predicted.begin(), set.predicted.end()) - set.predicted.begin();
    const double best = *std::min_element(set.measured.begin(), set.measured.end());
    const double slowdown = set.measured[static_cast<std::size_t>(pick)] / best - 1;
    summary.slowdown += slowdown;
    summary.worst_slowdown = std::max(summary.worst_slowdown, slowdown);
    summary.tau += kendall_tau(set.predicted, set.measured);
    ++summary.sets;
  }
  if (summary.sets > 0) {
    summary.slowdown /= static_cast<double>(summary.sets);
    summary.tau /= static_cast<double>(summary.sets);
  }
  return summary;
}

bool belongs(const PublishedRow& row, RowHalf half) {
  if (half == RowHalf::kAll) return true;
  return is_fitted_to(row) == (half == RowHalf::kFitted);
}

class Evaluator {
 public:
  Evaluator(const CostConstants& constants, const MemoryConstants& memory)
      : constants_(constants), memory_(memory) {}

  void add(const PublishedRow& row) {
    ++rows_;
    if (!row.unmodelled.empty()) {
      result_.unmodelled.push_back(row.id + ": " + row.unmodelled);
      return;
    }
    const StepCost step = step_cost(row.run, row.cluster, constants_);
    const RankMemory memory = rank_memory(row.run, row.measure, row.place, memory_);
    result_.predictions.push_back({row.id, step, memory.total()});
    add_memory(row, memory);
    if (row.out_of_memory || !row.step_seconds) return;
    add_step(row, step.total().count());
  }

  RowsEvaluation finish() {
    const auto allowed = static_cast<std::size_t>(0.03 * static_cast<double>(rows_));
    const std::size_t missing = result_.unmodelled.size();
    result_.unmodelled_as_errors = missing > allowed ? missing - allowed : 0;
    step_.insert(step_.end(), result_.unmodelled_as_errors, -1.0);
    result_.step = summarize(step_);
    result_.step_by_device = summaries(by_device_);
    result_.step_by_scale = summaries(by_scale_);
    result_.step_by_group = summaries(by_group_);
    result_.expert_step = summarize(expert_);
    result_.allocated_memory = summarize(allocated_);
    result_.device_memory = summarize(device_);
    result_.memory_by_group = summaries(memory_by_group_);
    finish_yardstick();
    result_.one_node = ranking(values(one_node_));
    result_.many_nodes = ranking(values(many_nodes_));
    return std::move(result_);
  }

 private:
  using SetKey = std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t,
                            std::int64_t, std::string>;

  static std::vector<RankedSet> values(const std::map<SetKey, RankedSet>& sets) {
    std::vector<RankedSet> all;
    for (const auto& [key, set] : sets) all.push_back(set);
    return all;
  }

  void add_step(const PublishedRow& row, double predicted) {
    const double error = predicted / *row.step_seconds - 1;
    if (row.experts) {
      expert_.push_back(error);
      return;
    }
    step_.push_back(error);
    by_device_[row.device].push_back(error);
    by_scale_[scale_of(row.devices())].push_back(error);
    by_group_[row.group].push_back(error);
    auto& sets = row.cluster.nodes.front().count == 1 ? one_node_ : many_nodes_;
    const TransformerShape& model = row.run.model;
    RankedSet& set = sets[{row.group, row.device, row.model, model.sequence, row.devices(),
                           row.run.global_batch, row.precision}];
    set.predicted.push_back(predicted);
    set.measured.push_back(*row.step_seconds);
    const double ideal = flops_per_device(row.run) * bubble_factor(row.run);
    rates_[row.device + " " + std::string(kNumberFormatText.text(row.run.format))].push_back(
        {row.device, scale_of(row.devices()), ideal, *row.step_seconds});
  }

  void add_memory(const PublishedRow& row, const RankMemory& memory) {
    const double whole =
        rank_memory(row.run, MemoryMeasure::kDevice, RankPlace::kFullest, memory_).total();
    const auto capacity = static_cast<double>(row.cluster.devices.front().memory.count());
    if (row.out_of_memory && whole <= capacity) {
      result_.out_of_memory_said_to_fit.push_back(row.id);
    }
    if (!row.out_of_memory && !row.chooses_recompute && whole > 1.05 * capacity) {
      result_.ran_said_to_miss.push_back(row.id);
    }
    if (!row.peak_bytes || row.out_of_memory) return;
    const double error = memory.total() / *row.peak_bytes - 1;
    (row.measure == MemoryMeasure::kDevice ? device_ : allocated_).push_back(error);
    memory_by_group_[row.group].push_back(error);
  }

  /// What "one efficiency per kind of device and format" reaches, its efficiency being the median.
  void finish_yardstick() {
    std::vector<double> all;
    Errors by_device;
    Errors by_scale;
    for (const auto& [kind, rows] : rates_) {
      std::vector<double> rates;
      for (const Rate& row : rows) rates.push_back(row.ideal / row.measured);
      const double rate = median_of(rates);
      for (const Rate& row : rows) {
        const double error = row.ideal / rate / row.measured - 1;
        all.push_back(error);
        by_device[row.device].push_back(error);
        by_scale[row.scale].push_back(error);
      }
    }
    result_.one_rate = summarize(all);
    result_.one_rate_by_device = summaries(by_device);
    result_.one_rate_by_scale = summaries(by_scale);
  }

  struct Rate {
    std::string device;
    std::string scale;
    double ideal;
    double measured;
  };

  const CostConstants& constants_;
  const MemoryConstants& memory_;
  RowsEvaluation result_;
  std::size_t rows_ = 0;
  std::vector<double> step_, expert_, allocated_, device_;
  Errors by_device_, by_scale_, by_group_, memory_by_group_;
  std::map<SetKey, RankedSet> one_node_, many_nodes_;
  std::map<std::string, std::vector<Rate>> rates_;
};

}  // namespace

ErrorSummary summarize(std::vector<double> errors) {
  ErrorSummary summary{.rows = errors.size()};
  if (errors.empty()) return summary;
  summary.bias = median_of(errors);
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  summary.median = median_of(errors);
  for (const double error : errors) summary.mean += error / static_cast<double>(errors.size());
  const auto rank = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(errors.size())));
  summary.ninetieth = errors[rank - 1];
  return summary;
}

double kendall_tau(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double product = (a[i] - a[j]) * (b[i] - b[j]);
      pairs += 1;
      sum += product > 0 ? 1 : (product < 0 ? -1 : 0);
    }
  }
  return pairs > 0 ? sum / pairs : 0;
}

RowsEvaluation evaluate_rows(std::vector<PublishedRow> rows, RowHalf half,
                             const CostConstants& constants, const MemoryConstants& memory) {
  Evaluator evaluator(constants, memory);
  for (PublishedRow& row : rows) {
    if (!belongs(row, half)) continue;
    choose_missing(row, constants, memory);
    evaluator.add(row);
  }
  return evaluator.finish();
}

}  // namespace quadrille
