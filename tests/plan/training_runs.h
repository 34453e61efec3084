// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs and clusters that the tests of the cost models share.

#include "quadrille/config/device_library.h"
#include "quadrille/plan/training_run.h"

namespace quadrille::testing_runs {

inline ClusterSpec cluster_of(std::string_view device, std::int64_t count) {
  return known_cluster({.device = device, .count = count}).value();
}

/// 175 billion parameters: 96 layers of 12288.
inline TransformerShape gpt3() {
  return {.layers = 96,
          .hidden = 12288,
          .heads = 96,
          .kv_heads = 96,
          .ffn = 4 * 12288,
          .vocab = 51200,
          .sequence = 2048,
          .tied = true};
}

inline TrainingRun run_of(const TransformerShape& model, const RunLayout& layout,
                          std::int64_t micro_batches) {
  TrainingRun run{.model = model, .layout = layout};
  run.global_batch = micro_batches * layout.data * layout.micro_batch;
  return run;
}

}  // namespace quadrille::testing_runs
