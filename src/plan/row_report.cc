// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "quadrille/plan/row_evaluation.h"

namespace quadrille {
namespace {

Json json_of(const ErrorSummary& errors) {
  Json json = Json::object();
  json.set("rows", static_cast<std::int64_t>(errors.rows))
      .set("median", errors.median)
      .set("mean", errors.mean)
      .set("ninetieth", errors.ninetieth)
      .set("bias", errors.bias);
  return json;
}

Json json_of(const std::map<std::string, ErrorSummary>& parts) {
  Json json = Json::object();
  for (const auto& [name, errors] : parts) json.set(name, json_of(errors));
  return json;
}

Json json_of(const RankingSummary& ranking) {
  Json json = Json::object();
  json.set("sets", static_cast<std::int64_t>(ranking.sets))
      .set("slowdown", ranking.slowdown)
      .set("worst_slowdown", ranking.worst_slowdown)
      .set("tau", ranking.tau);
  return json;
}

Json json_of(const std::vector<std::string>& lines) {
  Json json = Json::array();
  for (const std::string& line : lines) json.push(line);
  return json;
}

Json json_of(const RowPrediction& row) {
  const StepCost& step = row.step;
  Json json = Json::object();
  json.set("id", row.id)
      .set("step_seconds", step.total().count())
      .set("memory_bytes", row.memory_bytes);
  json.set("compute", step.compute.count())
      .set("recompute", step.recompute.count())
      .set("host", step.host.count())
      .set("tensor_transfer", step.tensor_transfer.count())
      .set("context_transfer", step.context_transfer.count())
      .set("stage_transfer", step.stage_transfer.count())
      .set("bubble", step.bubble.count())
      .set("gradient_transfer", step.gradient_transfer.count())
      .set("parameter_transfer", step.parameter_transfer.count())
      .set("optimizer", step.optimizer.count())
      .set("other", step.other.count());
  return json;
}

std::string line_of(std::string_view name, const ErrorSummary& errors) {
  return fmt::format("  {:<28} {:>5}  {:>6.1f}%  {:>6.1f}%  {:>6.1f}%  {:>+6.1f}%\n", name,
                     errors.rows, 100 * errors.median, 100 * errors.mean, 100 * errors.ninetieth,
                     100 * errors.bias);
}

std::string table_of(std::string_view title, const std::map<std::string, ErrorSummary>& parts) {
  std::string text = fmt::format("{}\n", title);
  for (const auto& [name, errors] : parts) text += line_of(name, errors);
  return text;
}

std::string line_of(std::string_view name, const RankingSummary& ranking) {
  return fmt::format(
      "  {:<28} {:>5} sets  pick {:+.1f}% of the best (worst {:+.1f}%)  tau {:.3f}\n", name,
      ranking.sets, 100 * ranking.slowdown, 100 * ranking.worst_slowdown, ranking.tau);
}

std::string named(std::string_view title, const std::vector<std::string>& lines) {
  std::string text = fmt::format("{}: {}\n", title, lines.size());
  for (const std::string& line : lines) text += "  " + line + "\n";
  return text;
}

}  // namespace

Json to_json(const RowsEvaluation& evaluation) {
  Json json = Json::object();
  json.set("step", json_of(evaluation.step))
      .set("step_by_device", json_of(evaluation.step_by_device))
      .set("step_by_scale", json_of(evaluation.step_by_scale))
      .set("step_by_group", json_of(evaluation.step_by_group))
      .set("expert_step", json_of(evaluation.expert_step))
      .set("one_rate", json_of(evaluation.one_rate))
      .set("one_rate_by_device", json_of(evaluation.one_rate_by_device))
      .set("one_rate_by_scale", json_of(evaluation.one_rate_by_scale))
      .set("allocated_memory", json_of(evaluation.allocated_memory))
      .set("device_memory", json_of(evaluation.device_memory))
      .set("memory_by_group", json_of(evaluation.memory_by_group))
      .set("out_of_memory_said_to_fit", json_of(evaluation.out_of_memory_said_to_fit))
      .set("ran_said_to_miss", json_of(evaluation.ran_said_to_miss))
      .set("ranking_one_node", json_of(evaluation.one_node))
      .set("ranking_many_nodes", json_of(evaluation.many_nodes))
      .set("unmodelled", json_of(evaluation.unmodelled))
      .set("unmodelled_as_errors", static_cast<std::int64_t>(evaluation.unmodelled_as_errors));
  Json rows = Json::array();
  for (const RowPrediction& row : evaluation.predictions) rows.push(json_of(row));
  json.set("rows", std::move(rows));
  return json;
}

std::string to_text(const RowsEvaluation& evaluation) {
  std::string text = fmt::format("{:<30} {:>5}  {:>7}  {:>7}  {:>7}  {:>7}\n", "step time", "rows",
                                 "median", "mean", "90th", "bias");
  text += line_of("all", evaluation.step);
  text += line_of("one efficiency per kind", evaluation.one_rate);
  if (evaluation.expert_step.rows > 0)
    text += line_of("mixture of experts", evaluation.expert_step);
  text += table_of("by device", evaluation.step_by_device);
  text += table_of("by devices of the run", evaluation.step_by_scale);
  text += table_of("by source", evaluation.step_by_group);
  text += "peak memory\n";
  text += line_of("allocators", evaluation.allocated_memory);
  text += line_of("nvidia-smi", evaluation.device_memory);
  text += table_of("by source", evaluation.memory_by_group);
  text += named("ran out of memory, said to fit", evaluation.out_of_memory_said_to_fit);
  text += named("ran, said to miss the device by more than 5%", evaluation.ran_said_to_miss);
  text += "ranking layouts\n";
  text += line_of("one node", evaluation.one_node);
  text += line_of("many nodes", evaluation.many_nodes);
  text += named("not modelled", evaluation.unmodelled);
  return text;
}

}  // namespace quadrille
