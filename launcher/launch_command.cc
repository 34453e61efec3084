// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille launch

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "launcher/commands.h"
#include "launcher/job.h"
#include "launcher/launch_view.h"
#include "launcher/profile.h"
#include "launcher/slurm.h"
#include "launcher/terminal.h"
#include "quadrille/base/file.h"
#include "quadrille/base/version.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/data/corpus.h"
#include "quadrille/launch/bootstrap.h"
#include "quadrille/launch/run_directory.h"
#include "quadrille/launch/supervisor.h"

namespace quadrille::launcher {
namespace {

struct Prepared {
  Plan plan;
  std::string run_directory;
  std::string backend;
  std::vector<std::string> command;
  std::optional<SlurmAllocation> slurm;
};

std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string("quadrille") : path.string();
}

/// What a rank process runs: the program after `--`, else this one.
Result<std::vector<std::string>> rank_program(const JobSpec& job, const LaunchOptions& options) {
  const std::vector<std::string>& program = options.program;
  if (options.has_program && program.empty()) {
    return fail(Code::kInvalid, "no program stands after --");
  }
  if (program.empty()) {
    if (!job.model.is_custom()) return std::vector<std::string>{own_path(), "rank"};
    return fail(Code::kInvalid,
                "model.family is \"custom\", but no program trains it: quadrille launch JOB -- "
                "PROGRAM");
  }
  const std::string& name = program.front();
  // A name without a slash is looked for in PATH, as a shell would.
  if (name.find('/') == std::string::npos) return program;
  if (::access(name.c_str(), X_OK) == 0 && !std::filesystem::is_directory(name)) return program;
  return fail(Code::kNotFound, fmt::format("no program \"{}\" that can be run", name));
}

Result<Prepared> prepare(const LaunchOptions& options) {
  QD_ASSIGN_OR_RETURN(JobSpec job, read_job_of(options.job));
  Prepared prepared;
  prepared.backend = options.backend;
  QD_ASSIGN_OR_RETURN(prepared.slurm, slurm_allocation());
  if (prepared.backend.empty()) {
    const bool one_process =
        options.host_file.empty() && options.program.empty() && !prepared.slurm;
    prepared.backend = one_process ? "threads" : "mpi";
  }
  QD_ASSIGN_OR_RETURN(prepared.command, rank_program(job, options));
  // A JOB that is a run goes on where it was.
  prepared.run_directory = run_named_by(options.job.job);
  if (!options.run_directory.empty()) prepared.run_directory = options.run_directory;
  if (prepared.run_directory.empty()) prepared.run_directory = default_run_directory(job.name);
  QD_ASSIGN_OR_RETURN(prepared.plan, plan_here({.job = std::move(job),
                                                .backend = prepared.backend,
                                                .run_directory = prepared.run_directory}));
  // Bad data is found here, before any rank starts.
  QD_ASSIGN_OR_RETURN(const auto corpus, Corpus::open(prepared.plan.job));
  for (const std::string& warning : corpus->warnings()) {
    complain("quadrille: warning: " + warning);
  }
  return prepared;
}

LaunchRequest request_of(const Prepared& prepared, const LaunchOptions& options) {
  LaunchRequest request;
  request.paths.directory = prepared.run_directory;
  request.ranks = prepared.plan.ranks();
  request.backend = prepared.backend;
  request.host_file = options.host_file;
  request.slurm = prepared.slurm;
  request.command = prepared.command;
  request.resume = options.resume.empty() ? "never" : options.resume;
  if (options.profile) request.environment.emplace_back(kProfileVariable, "1");
  return request;
}

Result<void> print_all(const Prepared& prepared, const LaunchOptions& options) {
  QD_ASSIGN_OR_RETURN(const LaunchCommand command, launch_command(request_of(prepared, options)));
  print_line("# The job, every effective value:");
  print_line(write_json(to_json(prepared.plan.job), 2));
  print_line("# The plan:");
  print(explain(prepared.plan));
  print_line("# The run directory:");
  print_line(prepared.run_directory);
  print_line("# The command:");
  print_line(to_text(command));
  return {};
}

Json machine_json(const MachineFacts& machine) {
  Json json = Json::object();
  json.set("processor", machine.processor)
      .set("cores", machine.cores)
      .set("memory_bytes", machine.memory.count())
      .set("fingerprint", machine.fingerprint);
  return json;
}

Result<void> write_run_files(const Prepared& prepared, const LaunchOptions& options,
                             const RunPaths& paths) {
  const BuildVersion& build = build_version();
  Json origin = Json::object();
  origin.set("file", options.job.job).set("started", utc_now_text());
  Json overrides = Json::array();
  for (const std::string& set : options.job.sets) overrides.push(set);
  origin.set("overrides", std::move(overrides));
  Json job = Json::object();
  job.set("job", to_json(prepared.plan.job))
      .set("origin", std::move(origin))
      .set("build", Json::object()
                        .set("version", build.version)
                        .set("revision", build.revision)
                        .set("compiler", build.compiler))
      .set("machine", machine_json(prepared.plan.machine));
  QD_RETURN_IF_ERROR(write_file_atomically(paths.job(), write_json(job, 2) + "\n"));
  return write_file_atomically(paths.plan(), write_json(to_json(prepared.plan), 2) + "\n");
}

// What --resume means here. A run that has checkpoints is never trained over.
Result<std::string> resume_policy(const LaunchOptions& options, const Prepared& prepared,
                                  const RunDirectory& run) {
  std::string policy = options.resume;
  if (policy.empty()) policy = run.existed() ? "auto" : "never";
  if (policy != "never") return policy;
  const std::string& chosen = prepared.plan.job.checkpoint.directory;
  const std::string directory = chosen.empty() ? run.paths().checkpoints() : chosen;
  const auto checkpoints = list_checkpoints(directory);
  if (checkpoints && !checkpoints->empty()) {
    return fail(
        Code::kInvalid,
        fmt::format(
            "a new run starts anew, but {} holds checkpoints of an earlier one, which would be "
            "lost; choose another directory, or --resume auto to go on",
            directory));
  }
  return policy;
}

Result<int> run_launch(const LaunchOptions& options) {
  QD_ASSIGN_OR_RETURN(SignalPipe signals, SignalPipe::create());
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the progress that goes away must not end the run
  QD_ASSIGN_OR_RETURN(const Prepared prepared, prepare(options));
  if (options.print) {
    QD_RETURN_IF_ERROR(print_all(prepared, options));
    return 0;
  }
  LaunchRequest request = request_of(prepared, options);
  QD_RETURN_IF_ERROR(launch_command(request));  // refuses what cannot start before a folder is made
  QD_ASSIGN_OR_RETURN(const RunDirectory run, RunDirectory::open(prepared.run_directory));
  QD_ASSIGN_OR_RETURN(request.resume, resume_policy(options, prepared, run));
  QD_RETURN_IF_ERROR(write_run_files(prepared, options, run.paths()));
  request.paths = run.paths();
  request.run_id = run.run_id();
  LaunchView view(prepared.plan, run.paths());
  view.begin(request.resume != "never");
  QD_ASSIGN_OR_RETURN(const LaunchResult result,
                      supervise(request, {.signals = &signals,
                                          .on_tick = [&view] { view.tick(); },
                                          .on_stop = [&view] { view.stopping(); }}));
  view.end(result);
  const bool has_ended =
      result.outcome == LaunchOutcome::kDone || result.outcome == LaunchOutcome::kStopped;
  if (options.profile && has_ended) {
    QD_RETURN_IF_ERROR(show_profile(run.paths(), prepared.plan.ranks()));
  }
  if (result.outcome == LaunchOutcome::kDone && !view.has_steps()) {
    return fail(Code::kInternal,
                "the ranks ended without a step; a PROGRAM joins the run by run_launched() "
                "(docs/custom-trainers.md)");
  }
  return exit_code(result);
}

}  // namespace

int launch_command_line(const LaunchOptions& options) {
  const Result<int> code = run_launch(options);
  return code ? *code : report_error(code.error());
}

}  // namespace quadrille::launcher
