// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Proves a Program before it runs: each layer's forward and backward exactly once per micro-batch
// and in order, every batch loaded before use, reduction after the last backward and before the one
// step, the same collectives in the same order on every rank.

#include "quadrille/base/result.h"
#include "quadrille/schedule/program.h"

namespace quadrille {

/// Errors: kInvalid naming the rank, the instruction and the rule.
[[nodiscard]] Result<void> verify(const Program& program);

}  // namespace quadrille
