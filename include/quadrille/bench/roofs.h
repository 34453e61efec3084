// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What this machine could do for the operations of a profile: the rate of each product at its own
// shape, by oneDNN alone, and the rate of memory for as many bytes as a call moves.

#include "quadrille/base/result.h"
#include "quadrille/observe/profile.h"
#include "quadrille/report/profile_table.h"

namespace quadrille {

/// Measures on the calling thread, pinned, with the profile's threads; about 50 ms an operation. An
/// operation with FLOPs that is no product of two matrices has the best rate of those that are.
/// Errors: why the machine could not be read.
[[nodiscard]] Result<Roofs> measure_roofs(const StepsProfile& profile);

}  // namespace quadrille
