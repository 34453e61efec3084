// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/comm/yardstick.h"

#include <mpi.h>

#include <array>
#include <climits>

namespace quadrille {

Result<void> library_all_reduce(std::span<float> values) {
  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started == 0 || ended != 0) return fail(Code::kUnavailable, "MPI does not run");
  if (values.size() > INT_MAX) return fail(Code::kInvalid, "more values than MPI takes at once");
  if (MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS) {
    return fail(Code::kUnavailable, "MPI's all-reduce failed");
  }
  return {};
}

std::string library_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string name(text.data());
  return name.substr(0, name.find_first_of(",\n"));
}

}  // namespace quadrille
