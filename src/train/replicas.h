// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parameters that several ranks hold must stay the same on all of them, bit by bit: each computes
// the update by itself. A reduction that is missing, or one rank that rounds differently, would let
// them drift apart without a sign; hashes of the values find it after the first step.

#include <cstdint>

#include "quadrille/base/result.h"
#include "train/rank_base.h"

namespace quadrille::internal {

/// After the first step and every observe.compare_every steps, where there are several ranks.
[[nodiscard]] bool compares_replicas(const RankBase& base, std::int64_t step);

/// Compares each parameter over the ranks that hold the same part of it. Collective over the world.
/// Errors: kInternal naming the first tensor that differs, the two ranks and the axis, on every
/// rank.
[[nodiscard]] Result<void> compare_replicas(RankBase& base, std::int64_t step);

}  // namespace quadrille::internal
