// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// From each rank's figures of a step to the one row of metrics.jsonl.

#include <optional>

#include "quadrille/observe/run_record.h"
#include "quadrille/observe/stopwatch.h"
#include "train/step_update.h"

namespace quadrille::internal {

/// The step has ended: gathers the ranks' phases and peaks; the same record on every rank.
/// Collective.
[[nodiscard]] Result<StepRecord> report_step(RankBase& base, const Stopwatch& watch,
                                             std::int64_t step, const StepFigures& figures);

}  // namespace quadrille::internal
