// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Reads a job, plans it for a machine that is described here and need not exist, and prints the
// plan. Reading finds every mistake in the job; planning says why a job cannot fit.
//   plan_a_job JOB.json [CORES [GIBIBYTES]]

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "quadrille/base/version.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/plan/plan.h"

int main(int count, char** arguments) {
  if (count < 2 || count > 4) {
    std::fprintf(stderr, "usage: plan_a_job JOB.json [CORES [GIBIBYTES]]\n");
    return 2;
  }
  const auto job = quadrille::read_job(arguments[1]);
  if (!job) {
    std::fprintf(stderr, "%s\n", job.error().to_text().c_str());
    return 2;
  }
  quadrille::MachineFacts machine;
  machine.cores = count > 2 ? std::atoi(arguments[2]) : 2;
  const std::int64_t gibibytes = count > 3 ? std::atoll(arguments[3]) : 4;
  machine.memory = quadrille::Bytes(gibibytes << 30);
  machine.processor = "a machine on paper";

  const auto plan = quadrille::make_plan(*job, machine);
  if (!plan) {
    std::fprintf(stderr, "%s\n", plan.error().to_text().c_str());
    return 2;
  }
  std::printf("Quadrille %s\n%s\n", quadrille::build_version().version.c_str(),
              quadrille::explain(*plan).c_str());
  return 0;
}
