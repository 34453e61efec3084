// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether the ranks of a custom trainer have declared the same parameters: buckets, checkpoints and
// initial values rely on it.

#include <vector>

#include "quadrille/train/custom_trainer.h"

namespace quadrille::internal {

/// Collective. Errors: kInvalid with the first difference between rank 0 and another.
[[nodiscard]] Result<void> check_alike(World& world,
                                       const std::vector<CustomParameter>& parameters);

}  // namespace quadrille::internal
