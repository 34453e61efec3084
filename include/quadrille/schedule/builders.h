// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One function per schedule.

#include <cstdint>

#include "quadrille/base/result.h"
#include "quadrille/schedule/program.h"

namespace quadrille {

struct ScheduleShape {
  int ranks = 1;
  std::int64_t layers = 1;
  std::int64_t micro_batches = 1;
};

/// No pipeline: each rank runs every layer for its micro-batches one after the other (forward all
/// layers, backward all layers), then reduces and steps.
/// Errors: kInvalid when a count is below 1.
[[nodiscard]] Result<Program> build_single_stage(const ScheduleShape& shape);

}  // namespace quadrille
