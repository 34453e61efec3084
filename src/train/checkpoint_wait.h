// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Before an update changes values and moments, a checkpoint that is being written must have read
// them. Usually it has, long before the gradients are there.

#include "quadrille/observe/stopwatch.h"
#include "train/rank_base.h"

namespace quadrille::internal {

/// Counts as other, and as `base.checkpoint_wait`. Errors: kTimeout, kAborted, naming the rank, the
/// step and the directory.
[[nodiscard]] Result<void> wait_for_checkpoint(RankBase& base, Stopwatch& watch);

}  // namespace quadrille::internal
