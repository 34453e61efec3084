// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/report/profile_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace quadrille {
namespace {

constexpr double kLeastShare = 0.001;

double per_second(double amount, Seconds seconds) {
  return seconds.count() > 0 ? amount / seconds.count() : 0;
}

std::string rate(double amount) {
  return amount > 0 ? fmt::format("{:.1f}", amount / 1e9) : std::string("-");
}

/// A row of the table, of sums over the steps.
struct Row {
  std::string name;
  double calls = 0;
  Seconds seconds;
  double flops = 0;
  double bytes = 0;
  Reached reached;
};

std::string row_text(const Row& row, const StepsProfile& profile) {
  const auto steps = static_cast<double>(profile.steps);
  const std::string bound = row.reached.bound == Bound::kUnknown
                                ? std::string()
                                : fmt::format("{:>10}{:>6.0f}%", kBoundText.text(row.reached.bound),
                                              100 * row.reached.fraction);
  return fmt::format("{:<44}{:>7.4g}{:>11.3f}{:>8.1f}%{:>10}{:>9}{}\n", row.name, row.calls / steps,
                     1e3 * row.seconds.count() / steps, 100 * (row.seconds / profile.seconds),
                     rate(per_second(row.flops, row.seconds)),
                     rate(per_second(row.bytes, row.seconds)), bound);
}

const Roof& roof_of(const Roofs& roofs, const std::string& key) {
  static const Roof kUnknown;
  const auto found = roofs.find(key);
  return found == roofs.end() ? kUnknown : found->second;
}

}  // namespace

Reached reached(const OperationProfile& operation, const Roof& roof) {
  const double products =
      roof.flops_per_second > 0 ? operation.flops.count() / roof.flops_per_second : 0;
  const double memory = roof.bytes_per_second > 0 ? operation.bytes / roof.bytes_per_second : 0;
  const double least = std::max(products, memory);
  if (least <= 0 || operation.seconds.count() <= 0) return {};
  return {products >= memory ? Bound::kProducts : Bound::kMemory,
          least / operation.seconds.count()};
}

std::string profile_table(const StepsProfile& profile, const Roofs& roofs) {
  if (profile.steps == 0) {
    return "No step to profile: the first two of a launch do not count.\n";
  }
  std::string text = fmt::format(
      "Step by operation, mean of {} steps after the first two, {} rank{} of {} thread{}\n"
      "{:<44}{:>7}{:>11}{:>9}{:>10}{:>9}{}\n",
      profile.steps, profile.ranks, profile.ranks == 1 ? "" : "s", profile.threads,
      profile.threads == 1 ? "" : "s", "operation", "calls", "ms", "share", "GFLOP/s", "GB/s",
      roofs.empty() ? "" : "     bound reached");
  Row rest{.name = "others"};
  Row all{.name = "step", .seconds = profile.seconds};
  for (const OperationProfile& operation : profile.operations) {
    Row row{.name = operation.key(),
            .calls = static_cast<double>(operation.calls),
            .seconds = operation.seconds,
            .flops = operation.flops.count(),
            .bytes = operation.bytes,
            .reached = reached(operation, roof_of(roofs, operation.key()))};
    for (Row* sum : {&all, &rest}) {
      if (sum == &rest && operation.seconds / profile.seconds >= kLeastShare) continue;
      sum->calls += row.calls;
      sum->flops += row.flops;
      sum->bytes += row.bytes;
      if (sum == &rest) sum->seconds += row.seconds;
    }
    if (operation.seconds / profile.seconds >= kLeastShare) text += row_text(row, profile);
  }
  if (rest.calls > 0) text += row_text(rest, profile);
  text += row_text({.name = "between operations", .seconds = profile.between()}, profile);
  text += row_text(all, profile);
  const auto steps = static_cast<double>(profile.steps);
  text += fmt::format("page faults of a step: {:.1f}; leases of the pool: {:.1f}\n",
                      profile.page_faults / steps, profile.leases / steps);
  return text;
}

Json profile_json(const StepsProfile& profile, const Roofs& roofs) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(profile.steps, 1));
  Json operations = Json::array();
  for (const OperationProfile& operation : profile.operations) {
    const Roof& roof = roof_of(roofs, operation.key());
    const Reached found = reached(operation, roof);
    const bool is_known = found.bound != Bound::kUnknown;
    const auto known = [](double value) { return value > 0 ? Json(value) : Json(); };
    operations.push(
        Json::object()
            .set("operation", operation.key())
            .set("collective", operation.is_collective())
            .set("calls", static_cast<double>(operation.calls) / steps)
            .set("seconds", operation.seconds.count() / steps)
            .set("share", operation.seconds / profile.seconds)
            .set("flops_per_second", known(per_second(operation.flops.count(), operation.seconds)))
            .set("bytes_per_second", known(per_second(operation.bytes, operation.seconds)))
            .set("roof_flops_per_second", known(roof.flops_per_second))
            .set("roof_bytes_per_second", known(roof.bytes_per_second))
            .set("bound", is_known ? Json(kBoundText.text(found.bound)) : Json())
            .set("reached", is_known ? Json(found.fraction) : Json()));
  }
  return Json::object()
      .set("steps", profile.steps)
      .set("ranks", profile.ranks)
      .set("threads", profile.threads)
      .set("step_seconds", profile.seconds.count() / steps)
      .set("between_seconds", profile.between().count() / steps)
      .set("page_faults", profile.page_faults / steps)
      .set("leases", profile.leases / steps)
      .set("operations", std::move(operations));
}

}  // namespace quadrille
