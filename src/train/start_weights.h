// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A run's first parameters: random ones, or those of `model.weights`, which is a Hugging Face
// folder, or a checkpoint of another run whose moments and step are left behind.

#include "quadrille/base/result.h"
#include "train/rank_state.h"

namespace quadrille::internal {

/// Errors: those of reading; kInvalid for weights of another model or tokenizer.
[[nodiscard]] Result<void> start_anew(RankState& state);

}  // namespace quadrille::internal
