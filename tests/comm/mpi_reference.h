// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// MPI's own collectives as a reference for ours.

#include "quadrille/comm/world.h"

namespace quadrille::testing {

/// The group of all ranks against MPI's own collectives on the same values, which are whole numbers
/// small enough that every order of adding them gives the same bits. Inside run_mpi only. Errors:
/// kCorrupt naming the collective, type and size that differ.
[[nodiscard]] Result<void> check_against_mpi(World& world);

}  // namespace quadrille::testing
