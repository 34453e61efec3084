// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille bench compare | show

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "launcher/bench_commands.h"
#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/bench/report.h"

namespace quadrille::launcher {
namespace {

struct ShowOptions {
  std::vector<std::string> files;
  bool json = false;
  bool markdown = false;
  bool head = false;
};

Result<void> run_compare(const std::vector<std::string>& files) {
  QD_ASSIGN_OR_RETURN(const std::vector<BenchReport> before, read_reports(files[0]));
  QD_ASSIGN_OR_RETURN(const std::vector<BenchReport> after, read_reports(files[1]));
  QD_ASSIGN_OR_RETURN(const std::vector<ComparedRow> rows, compare_reports(before, after));
  print(comparison_table(rows));
  return {};
}

Result<void> run_show(const ShowOptions& options) {
  std::vector<BenchReport> all;
  for (const std::string& file : options.files) {
    QD_ASSIGN_OR_RETURN(std::vector<BenchReport> reports, read_reports(file));
    std::move(reports.begin(), reports.end(), std::back_inserter(all));
  }
  if (options.json) {
    Json reports = Json::array();
    for (const BenchReport& report : all) reports.push(to_json(report));
    print_line(write_json(Json::object().set("reports", std::move(reports)), 2));
    return {};
  }
  for (const BenchReport& report : all) {
    if (options.head) {
      print_line(fmt::format("- Machine: {}\n- Build: {}\n- Date: {}\n", report.machine,
                             report.build, report.date));
      return {};
    }
    print((options.markdown ? bench_markdown(report) : bench_table(report)) + "\n");
  }
  return {};
}

int exit_code_of(const Result<void>& done) { return done ? 0 : report_error(done.error()); }

}  // namespace

void add_bench_results(CLI::App& group, std::function<int()>& action) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App* compare =
      group.add_subcommand("compare", "Two results of --json beside each other, as ratios");
  compare->add_option("FILES", options->files, "BEFORE.json AFTER.json")->required()->expected(2);
  compare->footer("Example:\n  quadrille bench compare before.json after.json");
  compare->callback([&action, options] {
    action = [options] { return exit_code_of(run_compare(options->files)); };
  });
  CLI::App* show = group.add_subcommand("show", "Results of --json as tables");
  show->add_option("FILES", options->files, "Of one benchmark, or of several")->required();
  auto* json = show->add_flag("--json", options->json, "All of them as one file");
  auto* markdown =
      show->add_flag("--markdown", options->markdown, "Tables of Markdown")->excludes(json);
  show->add_flag("--head", options->head, "Only where and when the first was measured")
      ->excludes(json)
      ->excludes(markdown);
  show->footer("Example:\n  quadrille bench show step.json gemm.json --markdown");
  show->callback(
      [&action, options] { action = [options] { return exit_code_of(run_show(*options)); }; });
}

}  // namespace quadrille::launcher
