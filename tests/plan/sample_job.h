// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A job small enough to count its bytes by hand, and machines to plan it for.

#include "quadrille/config/job_spec.h"
#include "quadrille/plan/plan.h"

namespace quadrille::test {

/// One block, H 8, A 2, F 16, V 256, context and sequence 4, 12 sequences a step.
inline JobSpec sample_job() {
  JobSpec job;
  job.name = "sample";
  job.model = {.layers = 1, .hidden = 8, .heads = 2, .ffn = 16, .vocab = 256, .context = 4};
  job.data.train = {"/dev/null"};
  job.training.sequence = 4;
  job.training.global_batch = 12;
  job.training.steps = 100;
  job.parallel.data = 0;
  job.checkpoint.every = 10;
  return job;
}

inline MachineFacts machine_of(int cores, Bytes memory = 1_GiB) {
  MachineFacts machine;
  machine.cores = cores;
  machine.memory = memory;
  machine.disk_free = 1_GiB;
  machine.processor = "a test's processor";
  machine.peak_source = "unknown";
  return machine;
}

/// A machine of which ranks may use nine tenths: just enough for one that needs `needed`.
inline MachineFacts machine_that_fits(int cores, Bytes needed) {
  return machine_of(cores, Bytes((needed.count() / 9 + 1) * 10));
}

}  // namespace quadrille::test
