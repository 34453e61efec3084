// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one rank leases, by tag, before anything runs: the same shapes that the model and the
// trainer lease by, so a difference between the two is a bug, not an estimate.

#include <cstdint>
#include <map>
#include <string>

#include "quadrille/base/units.h"
#include "quadrille/config/job_spec.h"

namespace quadrille::internal {

/// A choice of layout for which memory is asked.
struct LayoutCandidate {
  int data = 1;
  std::int64_t micro_batch = 1;
  bool processes = false;  ///< Ranks are processes, not threads.
  int tensor = 1;
  bool sequence = false;

  [[nodiscard]] int ranks() const { return data * tensor; }
};

struct RankMemory {
  std::map<std::string, Bytes> by_tag;  ///< Keys are MemoryTag texts.
  Bytes activation_arena;
  [[nodiscard]] Bytes total() const;
};

/// Of the rank that needs most of each tag.
[[nodiscard]] RankMemory rank_memory(const JobSpec& job, const LayoutCandidate& candidate);

/// Of one checkpoint on disk: parameters and both moments, shard headers and the manifest.
[[nodiscard]] Bytes checkpoint_size(const ModelSpec& model);

}  // namespace quadrille::internal
