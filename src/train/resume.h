// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a run starts: anew, from the weights that its job names, or from the newest checkpoint that
// is valid and of this model. Rank 0 looks, all ranks load the same one.

#include <cstdint>
#include <functional>

#include "quadrille/base/result.h"
#include "train/rank_base.h"

namespace quadrille::internal {

struct StartPoint {
  std::int64_t step = 0;  ///< Optimizer steps already done.
  ValidationHistory validation;
};

/// Loads values and moments, or calls `initialise` where the run starts anew. Collective.
/// Errors: kNotFound when a checkpoint is required and none is valid; kInvalid for another model,
/// or one that has more steps than the job asks for.
[[nodiscard]] Result<StartPoint> start_or_resume(RankBase& base,
                                                 const std::function<Result<void>()>& initialise);

/// What a checkpoint of this run says about it after `step` steps.
[[nodiscard]] TrainingState training_state(const RankBase& base, std::int64_t step);

}  // namespace quadrille::internal
