// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Open MPI's ranks leave 4 MiB each in /dev/shm when mpirun is killed.

#include <string>
#include <vector>

namespace quadrille::internal {

/// Removes this user's `vader_segment.<this host>.*` files in `folder` that no process has mapped
/// and that are older than a few seconds (a new one is mapped right after it is made). Returns
/// their names.
std::vector<std::string> remove_mpi_leftovers(const std::string& folder = "/dev/shm");

}  // namespace quadrille::internal
