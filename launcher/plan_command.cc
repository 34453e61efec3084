// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille plan

#include <fmt/format.h>

#include <filesystem>

#include "launcher/commands.h"
#include "launcher/job.h"
#include "launcher/terminal.h"
#include "quadrille/base/file.h"
#include "quadrille/schedule/program.h"

namespace quadrille::launcher {
namespace {

Result<void> print_program(const Plan& plan, int rank) {
  if (rank >= plan.ranks()) {
    return fail(Code::kInvalid,
                fmt::format("--rank {}: the plan has ranks 0 to {}", rank, plan.ranks() - 1));
  }
  print_line(fmt::format("Program of rank {}:", rank));
  const auto& instructions = plan.program.ranks[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    print_line(fmt::format("{:6}  {}", i, to_text(instructions[i])));
  }
  return {};
}

// A file is replaced whole; what is no file (a device, a pipe) is written to; a link is followed.
Result<void> write_output(const std::string& path, const std::string& text) {
  std::error_code error;
  const auto target = std::filesystem::weakly_canonical(path, error);
  if (error) return fail(errno_error("cannot write \"" + path + "\"", error.value()));
  if (!std::filesystem::exists(target) || std::filesystem::is_regular_file(target)) {
    return write_file_atomically(target, text + "\n");
  }
  QD_ASSIGN_OR_RETURN(AppendFile file, AppendFile::open(target));
  return file.append_line(text);
}

Result<void> run_plan(const PlanOptions& options) {
  QD_ASSIGN_OR_RETURN(JobSpec job, read_job_of(options.job));
  QD_ASSIGN_OR_RETURN(const Plan plan, plan_here({.job = std::move(job), .run_directory = "."}));
  if (!options.output.empty()) {
    QD_RETURN_IF_ERROR(write_output(options.output, write_json(to_json(plan), 2)));
  }
  if (options.json) {
    print_line(write_json(to_json(plan), 2));
    return {};
  }
  if (options.rank) return print_program(plan, *options.rank);
  print(explain(plan));
  if (!options.explain) return {};
  for (const std::string& reason : plan.reasons) print_line("  " + reason);
  return {};
}

}  // namespace

int plan_command(const PlanOptions& options) {
  const Result<void> done = run_plan(options);
  return done ? 0 : report_error(done.error());
}

}  // namespace quadrille::launcher
