// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What a launch runs, word for word.

#include <fmt/format.h>
#include <unistd.h>

#include "quadrille/base/file.h"
#include "quadrille/base/text.h"
#include "quadrille/launch/bootstrap.h"
#include "quadrille/launch/supervisor.h"

namespace quadrille {
namespace {

Result<void> check(const LaunchRequest& request) {
  if (request.backend != "threads" && request.backend != "mpi") {
    return fail(Code::kInvalid, fmt::format("\"{}\" is no backend; choose \"threads\" or \"mpi\"",
                                            request.backend));
  }
  if (request.ranks < 1) {
    return fail(Code::kInvalid, fmt::format("{} ranks cannot be launched", request.ranks));
  }
  if (request.command.empty() || request.command.front().empty()) {
    return fail(Code::kInvalid, "there is no program to launch");
  }
  if (uses_srun(request) && request.slurm->tasks && *request.slurm->tasks < request.ranks) {
    return fail(Code::kInvalid,
                fmt::format("{} ranks do not fit the {} tasks of Slurm's job {}; ask for them "
                            "(salloc -n {}), or launch --ranks {}",
                            request.ranks, *request.slurm->tasks, request.slurm->job, request.ranks,
                            *request.slurm->tasks));
  }
  if (request.host_file.empty()) return {};
  if (request.backend != "mpi") {
    return fail(Code::kInvalid, "ranks as threads share one host; a host file needs backend mpi");
  }
  if (!path_exists(request.host_file)) {
    return fail(Code::kNotFound, fmt::format("no host file \"{}\"", request.host_file));
  }
  return {};
}

/// mpirun's own words, up to the program. Why each: it refuses root unless told; it refuses more
/// ranks than cores; it would bind each rank to one core, where our ranks bind themselves; ranks
/// that wait must give their core away; each line of output says whose it is.
std::vector<std::string> mpirun_words(const LaunchRequest& request) {
  std::vector<std::string> words{"mpirun"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  for (const char* word : {"--oversubscribe", "--bind-to", "none", "--tag-output", "--mca",
                           "mpi_yield_when_idle", "1"}) {
    words.emplace_back(word);
  }
  if (!request.host_file.empty()) {
    words.insert(words.end(), {"--hostfile", request.host_file});
    // A host that is gone is noticed after 6 seconds instead of minutes.
    for (const char* setting :
         {"oob_tcp_keepalive_time 2", "oob_tcp_keepalive_intvl 1", "oob_tcp_keepalive_probes 3"}) {
      words.emplace_back("--mca");
      for (std::string& word : split(setting, ' ')) words.push_back(std::move(word));
    }
  }
  return words;
}

/// srun's own words, up to the program. Why each: Open MPI finds its peers through PMIx alone; srun
/// would let the others hang when a rank dies; our ranks bind themselves; each line of output says
/// whose it is; nobody types into a rank. srun hands the environment on by itself.
std::vector<std::string> srun_words(const LaunchRequest& request) {
  return {"srun",
          "--mpi=pmix",
          "--kill-on-bad-exit=1",
          "--cpu-bind=none",
          "--label",
          "--input=none",
          "--ntasks=" + std::to_string(request.ranks)};
}

}  // namespace

bool uses_srun(const LaunchRequest& request) {
  return request.backend == "mpi" && request.slurm && request.host_file.empty();
}

Result<LaunchCommand> launch_command(const LaunchRequest& request) {
  QD_RETURN_IF_ERROR(check(request));
  LaunchCommand command;
  command.environment = {{kRunDirectoryVariable, request.paths.directory},
                         {kRunIdVariable, request.run_id},
                         {kControlVariable, "<host:port>"},
                         {kTokenVariable, "<secret>"},
                         {kBackendVariable, request.backend},
                         {kResumeVariable, request.resume}};
  command.environment.insert(command.environment.end(), request.environment.begin(),
                             request.environment.end());
  if (uses_srun(request)) {
    command.arguments = srun_words(request);
    // As mpirun is told above: ranks that wait must give their core away.
    command.environment.emplace_back("OMPI_MCA_mpi_yield_when_idle", "1");
  } else if (request.backend == "mpi") {
    command.arguments = mpirun_words(request);
    for (const auto& [name, value] : command.environment) {
      command.arguments.insert(command.arguments.end(), {"-x", name});
    }
    command.arguments.insert(command.arguments.end(), {"-n", std::to_string(request.ranks)});
  }
  command.arguments.insert(command.arguments.end(), request.command.begin(), request.command.end());
  return command;
}

std::string to_text(const LaunchCommand& command) {
  std::vector<std::string> words;
  for (const auto& [name, value] : command.environment) {
    words.push_back(name + "=" + shell_quoted(value));
  }
  for (const std::string& word : command.arguments) words.push_back(shell_quoted(word));
  return join(words, " ");
}

}  // namespace quadrille
