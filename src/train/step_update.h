// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The end of an optimizer step, whatever computed the gradients: the ranks' losses become one mean,
// the gradients one update, scaled once by the step's global token count.

#include <cstdint>

#include "quadrille/observe/stopwatch.h"
#include "train/rank_base.h"

namespace quadrille::internal {

/// What a step found; the same on every rank.
struct StepFigures {
  double loss = 0;  ///< Mean over the global target tokens.
  std::int64_t tokens = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
};

/// A loss as its sum and the count of tokens that it is over: of one rank, or of all.
struct LossSum {
  double sum = 0;
  std::int64_t tokens = 0;

  [[nodiscard]] double mean() const { return sum / static_cast<double>(tokens); }
};

/// Summed in rank order. Collective; counts as communication.
[[nodiscard]] Result<LossSum> sum_over_ranks(RankBase& base, Stopwatch& watch, const LossSum& mine,
                                             const char* place);

/// Clips and updates for step `step` (from 1), whose gradients are reduced, and waits for it. Where
/// ranks have divided the work, each updates its slices and reads the others'. Collective.
/// Errors: kInvalid for a gradient that is not finite; parameters and moments are then unchanged.
[[nodiscard]] Result<StepFigures> update(RankBase& base, Stopwatch& watch, std::int64_t step,
                                         const LossSum& loss);

}  // namespace quadrille::internal
