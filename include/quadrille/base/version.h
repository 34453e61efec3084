// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which Quadrille this is: `quadrille --version` prints it and every run's job.json keeps it, so
// that a result can be traced to the sources and the build that made it.

#include <string>

namespace quadrille {

struct BuildVersion {
  std::string version;     ///< "0.1.0"
  std::string revision;    ///< As git describes it, with "-dirty" for changes not committed;
                           ///< "unknown" when built from files without a history.
  std::string build_type;  ///< "Release"
  std::string compiler;    ///< "GNU 12.2.0"
  std::string sanitizers;  ///< "address,undefined"; empty for none.
  std::string mpi;         ///< The standard that was compiled in, "MPI 3.1"; empty without MPI.
};

[[nodiscard]] const BuildVersion& build_version();

}  // namespace quadrille
