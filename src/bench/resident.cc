// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/resident.h"

#include <unistd.h>

#include <fstream>

namespace quadrille::internal {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  std::int64_t held = 0;
  file >> pages >> held;
  return held * sysconf(_SC_PAGESIZE);
}

}  // namespace quadrille::internal
