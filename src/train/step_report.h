// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// From each rank's figures of a step to the one row of metrics.jsonl.

#include <optional>

#include "quadrille/observe/run_record.h"
#include "train/executor.h"

namespace quadrille::internal {

/// Gathers the ranks' phases and peaks; the same record on every rank. Collective.
[[nodiscard]] Result<StepRecord> report_step(RankState& state, const Executor& executor,
                                             std::int64_t step, const StepFigures& figures);

}  // namespace quadrille::internal
