// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/job.h"

#include "quadrille/config/job_reader.h"
#include "quadrille/launch/machine.h"

namespace quadrille::launcher {

Result<JobSpec> read_job_of(const JobOptions& options) {
  std::vector<Override> overrides;
  for (const std::string& set : options.sets) {
    QD_ASSIGN_OR_RETURN(Override parsed, parse_override(set));
    overrides.push_back(std::move(parsed));
  }
  if (options.ranks) {
    // A layout with this many data-parallel ranks, whatever the job's own says.
    overrides.push_back({"parallel", "{\"data\": " + std::to_string(*options.ranks) + "}"});
  }
  return read_job(options.job, std::move(overrides));
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
