// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The fastest layout of a model on a cluster: every legal combination of degrees, micro-batch,
// schedule, sharding, sequence axis and recompute, priced by step_cost and rank_memory.
// Combinations that cannot beat the best ones so far are dropped by a lower bound before they are
// priced; a test shows by brute force that none is lost so. Pure and deterministic.

#include <map>
#include <string>
#include <vector>

#include "quadrille/plan/rank_memory.h"
#include "quadrille/plan/step_cost.h"

namespace quadrille {

/// 0 or empty leaves a choice to the search.
struct SearchLimits {
  std::int64_t tensor = 0;
  std::int64_t pipeline = 0;
  std::int64_t data = 0;
  std::int64_t context = 0;
  std::int64_t micro_batch = 0;
  std::vector<int> sharding = {0, 1, 3};
  std::vector<RecomputeKind> recompute = {RecomputeKind::kNone, RecomputeKind::kSelective,
                                          RecomputeKind::kFull};
  std::vector<PipelineKind> schedules = {PipelineKind::kOneFOneB, PipelineKind::kInterleaved};
  std::int64_t tensor_most = 64;
  std::int64_t context_most = 16;
  std::int64_t micro_batch_most = 32;
  double memory_share = 0.95;  ///< Of the device that a plan may fill.
};

struct SearchRequest {
  TransformerShape model = {};
  SoftwareTraits software = {};
  std::int64_t global_batch = 1;
  NumberFormat format = NumberFormat::kBf16;
  SearchLimits limits = {};
  std::size_t best = 5;  ///< Layouts to return.
  bool bounded = true;   ///< Drop by the bound; off for tests of the bound.
};

struct RatedLayout {
  RunLayout layout = {};
  StepCost step = {};
  RankMemory memory = {};
};

struct SearchResult {
  std::vector<RatedLayout> best;                 ///< Fastest first.
  std::int64_t considered = 0;                   ///< Combinations that divide.
  std::int64_t priced = 0;                       ///< Of them, not dropped by memory or bound.
  std::map<std::string, std::int64_t> rejected;  ///< Why, and how many.
  /// The combination that misses the memory by least, where none fits, and the bytes it misses.
  std::vector<RatedLayout> closest;
  double missing_bytes = 0;
};

/// Errors: kInvalid as check_cluster and for counts below 1 or limits that no combination meets;
/// never for a model that does not fit: then `best` is empty and `closest` is not.
[[nodiscard]] Result<SearchResult> search_layouts(const SearchRequest& request,
                                                  const ClusterSpec& cluster,
                                                  const CostConstants& constants = {},
                                                  const MemoryConstants& memory = {});

}  // namespace quadrille
