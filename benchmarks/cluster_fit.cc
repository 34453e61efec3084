// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Fits the constants of the cluster cost model to the fitted half of published runs, by coordinate
// descent from physical starting values, and prints the errors on the other half and the constants:
//   cluster_fit [--rounds N] [--leave GROUP] ROWS.json...
// With --leave a whole source is left out of the fit and its own error is printed: what the model
// says of runs by people it has never seen.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "quadrille/config/device_library.h"
#include "quadrille/plan/row_evaluation.h"

namespace quadrille {
namespace {

struct Constants {
  std::map<std::string, DeviceEfficiency> kinds;
  std::map<std::string, LinkLevel> links;
  CostConstants cost;
};

/// Parts that share a chip share its constants.
std::string kind_of(const std::string& device) {
  if (device.starts_with("A100")) return "A100";
  if (device.starts_with("H200") || device == "H100-SXM5-80GB") return "H100";
  return device == "B300-SXM" ? "B200-SXM" : device;
}

/// Shares of peaks that measured products and streams suggest, before any run is looked at.
Constants physical_start() {
  Constants start;
  for (const DeviceSpec& device : device_library()) {
    const bool fp8 = device.peak_of(NumberFormat::kFp8) > 0;
    const bool fp4 = device.peak_of(NumberFormat::kFp4) > 0;
    start.kinds[kind_of(device.name)] = {.matmul = 0.65,
                                         .matmul_fp8 = fp8 ? 0.55 : 0,
                                         .matmul_fp4 = fp4 ? 0.4 : 0,
                                         .attention = 0.5,
                                         .attention_portable = 0.35,
                                         .memory = 0.8,
                                         .tile = 96,
                                         .kernel = Seconds(4e-6),
                                         .launch = Seconds(10e-6)};
  }
  for (const LinkLevel& level : link_library()) start.links[level.name] = level;
  return start;
}

struct Knob {
  std::string name;
  std::function<double(const Constants&)> get;
  std::function<void(Constants&, double)> set;
  double least, most;
  std::string kind;  ///< Only rows of this kind of device depend on it; empty: all.
};

Knob kind_knob(const std::string& kind, const char* name, double DeviceEfficiency::*member,
               std::pair<double, double> bounds) {
  return {kind + "." + name,
          [=](const Constants& c) { return c.kinds.at(kind).*member; },
          [=](Constants& c, double value) { c.kinds[kind].*member = value; },
          bounds.first,
          bounds.second,
          kind};
}

Knob time_knob(const std::string& kind, const char* name, Seconds DeviceEfficiency::*member,
               std::pair<double, double> bounds) {
  return {kind + "." + name,
          [=](const Constants& c) { return (c.kinds.at(kind).*member).count(); },
          [=](Constants& c, double value) { c.kinds[kind].*member = Seconds(value); },
          bounds.first,
          bounds.second,
          kind};
}

Knob cost_knob(const char* name, double CostConstants::*member, double least, double most) {
  return {std::string("cost.") + name,
          [=](const Constants& c) { return c.cost.*member; },
          [=](Constants& c, double value) { c.cost.*member = value; },
          least,
          most,
          ""};
}

void add_kind(std::vector<Knob>& knobs, const std::string& kind, const DeviceEfficiency& start) {
  knobs.push_back(kind_knob(kind, "matmul", &DeviceEfficiency::matmul, {0.2, 0.99}));
  if (start.matmul_fp8 > 0) {
    knobs.push_back(kind_knob(kind, "matmul_fp8", &DeviceEfficiency::matmul_fp8, {0.1, 1}));
  }
  if (start.matmul_fp4 > 0) {
    knobs.push_back(kind_knob(kind, "matmul_fp4", &DeviceEfficiency::matmul_fp4, {0.1, 0.95}));
  }
  knobs.push_back(kind_knob(kind, "attention", &DeviceEfficiency::attention, {0.2, 0.75}));
  knobs.push_back(
      kind_knob(kind, "attention_portable", &DeviceEfficiency::attention_portable, {0.1, 0.8}));
  knobs.push_back(kind_knob(kind, "memory", &DeviceEfficiency::memory, {0.55, 0.92}));
  knobs.push_back(kind_knob(kind, "tile", &DeviceEfficiency::tile, {16, 400}));
  knobs.push_back(time_knob(kind, "kernel", &DeviceEfficiency::kernel, {2e-6, 8e-6}));
  knobs.push_back(time_knob(kind, "launch", &DeviceEfficiency::launch, {4e-6, 60e-6}));
}

std::vector<Knob> all_knobs(const Constants& start) {
  std::vector<Knob> knobs;
  for (const auto& [kind, efficiency] : start.kinds) add_kind(knobs, kind, efficiency);
  for (const auto& [name, level] : start.links) {
    const bool network = level.bandwidth == 0;
    knobs.push_back({"link." + name + ".efficiency",
                     [name = name](const Constants& c) { return c.links.at(name).efficiency; },
                     [name = name](Constants& c, double v) { c.links[name].efficiency = v; },
                     level.efficiency * (network ? 0.6 : 0.95),
                     std::min(0.95, level.efficiency * (network ? 1.3 : 1.1)), ""});
  }
  using C = CostConstants;
  for (const Knob& knob : {cost_knob("softmax_bytes", &C::softmax_bytes, 8, 24),
                           cost_knob("attention_sequence", &C::attention_sequence, 100, 2000),
                           cost_knob("attention_backward", &C::attention_backward, 1, 2),
                           cost_knob("batched_product", &C::batched_product, 0.2, 1),
                           cost_knob("eager_operations", &C::eager_operations, 15, 60),
                           cost_knob("tensor_exposed", &C::tensor_exposed, 0.05, 1),
                           cost_knob("gather_exposed", &C::gather_exposed, 0.01, 0.5),
                           cost_knob("contention", &C::contention, 0.01, 0.5),
                           cost_knob("stage_exposed", &C::stage_exposed, 0.2, 1),
                           cost_knob("chunk_exposed", &C::chunk_exposed, 0.05, 1),
                           cost_knob("jitter", &C::jitter, 1e-4, 0.02),
                           cost_knob("quantize_bytes", &C::quantize_bytes, 1, 8),
                           cost_knob("step_host", &C::step_host, 1e-3, 0.05),
                           cost_knob("optimizer_bytes", &C::optimizer_bytes, 26, 40)}) {
    knobs.push_back(knob);
  }
  return knobs;
}

void apply(PublishedRow& row, const Constants& constants) {
  for (DeviceSpec& device : row.cluster.devices) {
    device.efficiency = constants.kinds.at(kind_of(device.name));
  }
  for (LinkLevel& level : row.cluster.links) {
    level.efficiency = constants.links.at(level.name).efficiency;
  }
}

using Rows = std::vector<PublishedRow*>;

/// Huber loss of log(predicted / measured): squares near zero, so that outliers do not rule.
/// Sources of hundreds of rows of one machine count as much as 150 others.
double loss_of(const Rows& rows, const Constants& constants) {
  constexpr double kNear = 0.1;
  constexpr double kManyRows = 0.15;
  double sum = 0;
  double weights = 0;
  for (PublishedRow* row : rows) {
    apply(*row, constants);
    const double predicted = step_cost(row->run, row->cluster, constants.cost).total().count();
    const double error = std::abs(std::log(predicted / *row->step_seconds));
    const double weight = row->cluster.nodes.front().count == 1 && row->run.model.hidden <= 2048 &&
                                  row->run.software.flash == false
                              ? kManyRows
                              : 1;
    sum += weight * (error < kNear ? error * error / (2 * kNear) : error - kNear / 2);
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

void fit(const Rows& rows, Constants& constants, int rounds) {
  constexpr double kPull = 0.15;  // Of one row that says: the starting value.
  const Constants start = constants;
  const std::vector<Knob> knobs = all_knobs(start);
  std::map<std::string, Rows> by_kind{{"", rows}};
  for (PublishedRow* row : rows) by_kind[kind_of(row->device)].push_back(row);
  std::vector<double> steps(knobs.size(), 0.15);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < knobs.size(); ++i) {
      const Knob& knob = knobs[i];
      const auto found = by_kind.find(knob.kind);
      if (found == by_kind.end()) continue;
      const auto cost_at = [&](double value) {
        knob.set(constants, value);
        const double away = std::log(value / knob.get(start));
        return loss_of(found->second, constants) +
               kPull * away * away / static_cast<double>(found->second.size());
      };
      const double before = knob.get(constants);
      double best = before;
      double least = cost_at(before);
      for (const double factor : {1 + steps[i], 1 / (1 + steps[i])}) {
        const double value = std::clamp(before * factor, knob.least, knob.most);
        const double cost = cost_at(value);
        if (cost < least - 1e-7) {
          least = cost;
          best = value;
        }
      }
      knob.set(constants, best);
      steps[i] = best == before ? std::max(0.6 * steps[i], 0.01) : std::min(1.3 * steps[i], 0.5);
    }
  }
  for (const Knob& knob : knobs) fmt::print("{:<40} {:.4g}\n", knob.name, knob.get(constants));
}

void print_errors(const char* name, const Rows& rows, const Constants& constants) {
  std::vector<double> errors;
  for (PublishedRow* row : rows) {
    apply(*row, constants);
    const double predicted = step_cost(row->run, row->cluster, constants.cost).total().count();
    errors.push_back(predicted / *row->step_seconds - 1);
  }
  const ErrorSummary summary = summarize(errors);
  fmt::print("# {:<24} {:>4} rows  median {:.1f}%  mean {:.1f}%  90th {:.1f}%  bias {:+.1f}%\n",
             name, summary.rows, 100 * summary.median, 100 * summary.mean, 100 * summary.ninetieth,
             100 * summary.bias);
}

int run(const std::vector<std::string>& arguments) {
  int rounds = 30;
  std::string leave;
  std::vector<PublishedRow> rows;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--rounds" && i + 1 < arguments.size()) {
      rounds = std::atoi(arguments[++i].c_str());
    } else if (arguments[i] == "--leave" && i + 1 < arguments.size()) {
      leave = arguments[++i];
    } else {
      const auto json = read_json_file(arguments[i]);
      auto read = json ? published_rows_from(*json) : fail(json.error());
      if (!read) {
        fmt::print(stderr, "{}\n", read.error().to_text());
        return 2;
      }
      for (PublishedRow& row : *read) rows.push_back(std::move(row));
    }
  }
  Constants constants = physical_start();
  Rows fitted, held, left;
  for (PublishedRow& row : rows) {
    if (!row.unmodelled.empty() || !row.step_seconds || row.out_of_memory || row.experts) continue;
    choose_missing(row);
    if (!leave.empty() && row.group == leave) {
      left.push_back(&row);
    } else {
      (is_fitted_to(row) ? fitted : held).push_back(&row);
    }
  }
  fit(fitted, constants, rounds);
  print_errors("fitted", fitted, constants);
  print_errors("held out", held, constants);
  if (!leave.empty()) print_errors(leave.c_str(), left, constants);
  return 0;
}

}  // namespace
}  // namespace quadrille

int main(int count, char** values) {
  return quadrille::run(std::vector<std::string>(values + 1, values + count));
}
