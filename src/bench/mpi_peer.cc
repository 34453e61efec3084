// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Open MPI's own collectives, called as a program would.

#include <mpi.h>

#include "bench/comm_loops.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {

void mpi_collective(Collective collective, float* data, std::int64_t count) {
  int ranks = 0;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  QD_CHECK(count % ranks == 0);
  const int all = static_cast<int>(count);
  const int share = all / ranks;
  int code = MPI_SUCCESS;
  switch (collective) {
    case Collective::kAllReduce:
      code = MPI_Allreduce(MPI_IN_PLACE, data, all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case Collective::kReduceScatter:
      code =
          MPI_Reduce_scatter_block(MPI_IN_PLACE, data, share, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case Collective::kAllGather:
      code = MPI_Allgather(MPI_IN_PLACE, share, MPI_FLOAT, data, share, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case Collective::kBroadcast:
      code = MPI_Bcast(data, all, MPI_FLOAT, 0, MPI_COMM_WORLD);
      break;
  }
  QD_CHECK(code == MPI_SUCCESS);
}

}  // namespace quadrille::internal
