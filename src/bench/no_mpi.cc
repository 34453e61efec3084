// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for mpi_peer.cc in a build without MPI, whose benchmarks start no MPI ranks.

#include "bench/comm_loops.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {

void mpi_collective(Collective, float*, std::int64_t) {
  QD_CHECK_MSG(false, "this build has no MPI");
}

}  // namespace quadrille::internal
