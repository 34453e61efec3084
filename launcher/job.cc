// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/job.h"

#include <filesystem>

#include "quadrille/base/file.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/data/tokenizer.h"
#include "quadrille/launch/machine.h"

namespace quadrille::launcher {

std::string run_named_by(const std::string& job) {
  if (std::filesystem::is_regular_file(job)) return {};
  for (const std::string& run : {job, "runs/" + job}) {
    if (path_exists(run + "/job.json")) return run;
  }
  return {};
}

namespace {

/// What makes a layout of `ranks` ranks: the other degrees stay as the job has them, whatever its
/// own data-parallel degree.
Result<Override> data_ranks(const std::string& path, std::vector<Override> overrides, int ranks) {
  overrides.push_back({"parallel.data", "auto"});
  QD_ASSIGN_OR_RETURN(const JobSpec job, read_job(path, std::move(overrides)));
  const std::int64_t tensor = job.parallel.tensor;
  if (ranks % tensor != 0) {
    return fail(Code::kInvalid,
                "--ranks " + std::to_string(ranks) + ": " + std::to_string(tensor) +
                    " ranks share each layer (parallel.tensor); expected a multiple of that");
  }
  return Override{"parallel.data", std::to_string(ranks / tensor)};
}

}  // namespace

Result<JobSpec> read_job_of(const JobOptions& options) {
  std::vector<Override> overrides;
  for (const std::string& set : options.sets) {
    QD_ASSIGN_OR_RETURN(Override parsed, parse_override(set));
    overrides.push_back(std::move(parsed));
  }
  const std::string run = run_named_by(options.job);
  const std::string path = run.empty() ? options.job : run + "/job.json";
  if (options.ranks) {
    QD_ASSIGN_OR_RETURN(Override data, data_ranks(path, overrides, *options.ranks));
    overrides.push_back(std::move(data));
  }
  QD_ASSIGN_OR_RETURN(JobSpec job, read_job(path, overrides));
  if (job.model.is_custom() && job.model.vocab > 0) return job;
  QD_ASSIGN_OR_RETURN(const std::int64_t vocabulary, vocabulary_for(job));
  if (job.model.vocab == vocabulary) return job;
  // Read again, so that all checks of sizes see the vocabulary.
  overrides.push_back({"model.vocab", std::to_string(vocabulary)});
  return read_job(path, std::move(overrides));
}

Result<Plan> plan_here(const PlanRequest& request) {
  QD_ASSIGN_OR_RETURN(const HostTopology topology, read_host_topology());
  const MachineFacts machine = read_machine_facts({.cores = static_cast<int>(topology.cores.size()),
                                                   .memory = topology.memory,
                                                   .processor = topology.processor,
                                                   .run_directory = request.run_directory,
                                                   .backend = request.backend});
  return make_plan(request.job, machine);
}

}  // namespace quadrille::launcher
