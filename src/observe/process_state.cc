// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "observe/process_state.h"

#include <fstream>
#include <string>

namespace quadrille::internal {

ProcessState process_state(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // "<pid> (<name, which may hold anything>) <state> ..."
  const std::size_t end = line.rfind(") ");
  if (end == std::string::npos || end + 2 >= line.size()) return ProcessState::kDead;
  switch (line[end + 2]) {
    case 'Z':
    case 'X':
      return ProcessState::kDead;
    case 'T':
    case 't':
      return ProcessState::kStopped;
    default:
      return ProcessState::kRunning;
  }
}

}  // namespace quadrille::internal
