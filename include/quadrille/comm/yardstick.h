// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What others' collectives take on the same ranks, for benchmarks.

#include <span>
#include <string>

#include "quadrille/base/result.h"

namespace quadrille {

/// MPI's own all-reduce of sums, over all ranks of the world that run_mpi is running. It has no
/// deadline. Errors: kUnavailable outside run_mpi.
[[nodiscard]] Result<void> library_all_reduce(std::span<float> values);

/// Which MPI that is: "Open MPI v4.1.4"; empty where this build has none.
[[nodiscard]] std::string library_name();

}  // namespace quadrille
