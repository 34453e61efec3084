// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// From the command line's job options to a plan for this machine.

#include <string>

#include "launcher/commands.h"
#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/plan/plan.h"

namespace quadrille::launcher {

/// The run directory that JOB names, itself or in runs/; empty where JOB is a job's file.
[[nodiscard]] std::string run_named_by(const std::string& job);

/// Reads the job with --set and --ranks applied.
[[nodiscard]] Result<JobSpec> read_job_of(const JobOptions& options);

struct PlanRequest {
  JobSpec job;
  std::string backend = "threads";
  std::string run_directory;  ///< Whose disk the plan counts on.
};
/// Plans for the machine this runs on.
[[nodiscard]] Result<Plan> plan_here(const PlanRequest& request);

}  // namespace quadrille::launcher
