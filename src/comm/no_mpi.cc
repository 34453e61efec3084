// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The twin of the mpi_ files for builds without MPI.

#include "quadrille/comm/world.h"

namespace quadrille {

bool mpi_is_built() { return false; }

Result<void> run_mpi(const WorldOptions&, const RankBody&) {
  return fail(Code::kUnavailable,
              "this build has no MPI; install libopenmpi-dev and build again, or run ranks as "
              "threads");
}

}  // namespace quadrille
