// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What Slurm's variables say about the allocation that this process runs in.

#include <optional>

#include "quadrille/base/result.h"
#include "quadrille/launch/supervisor.h"

namespace quadrille::launcher {

/// Nothing outside an allocation. Errors: kInvalid where srun started several launchers: each would
/// start all ranks.
[[nodiscard]] Result<std::optional<SlurmAllocation>> slurm_allocation();

}  // namespace quadrille::launcher
