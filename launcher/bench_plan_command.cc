// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/bench_plan_command.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/plan/row_evaluation.h"

namespace quadrille::launcher {
namespace {

struct PlanRowsOptions {
  std::vector<std::string> files;
  std::string half = "all";
  bool json = false;
};

Result<std::vector<PublishedRow>> rows_of(const std::vector<std::string>& files) {
  std::vector<PublishedRow> all;
  for (const std::string& file : files) {
    QD_ASSIGN_OR_RETURN(const Json json, read_json_file(file));
    auto rows = published_rows_from(json);
    if (!rows) return fail(with_context(rows.error(), file));
    for (PublishedRow& row : *rows) all.push_back(std::move(row));
  }
  return all;
}

int run_plan_rows(const PlanRowsOptions& options) {
  auto rows = rows_of(options.files);
  if (!rows) return report_error(rows.error());
  const RowHalf half = kRowHalfText.value(options.half).value_or(RowHalf::kAll);
  const RowsEvaluation evaluation = evaluate_rows(*std::move(rows), half);
  if (options.json) {
    print_line(write_json(to_json(evaluation), 2));
  } else {
    print(to_text(evaluation));
  }
  return 0;
}

}  // namespace

void add_bench_plan(CLI::App& group, std::function<int()>& action) {
  CLI::App* command =
      group.add_subcommand("plan", "The cost models' errors on published runs, by kind and scale");
  const auto options = std::make_shared<PlanRowsOptions>();
  command->add_option("--rows", options->files, "JSON arrays of runs in the reference format")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--half", options->half,
                   "all, fitted (constants were fitted to them), held-out (default: all)")
      ->check(CLI::IsMember({"all", "fitted", "held-out"}));
  command->add_flag("--json", options->json, "Print one JSON object, every row's parts included");
  command->footer("Example:\n  quadrille bench plan --rows tests/plan/data/published_runs.json");
  command->callback([&action, options] { action = [options] { return run_plan_rows(*options); }; });
}

}  // namespace quadrille::launcher
