// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The last lines of what ranks printed. mpirun tags each line, "[1,2]<stderr>:text" for rank 2;
// the tags are taken off again.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quadrille/base/ids.h"

namespace quadrille::internal {

struct TailQuestion {
  std::string path;
  std::int64_t from_byte = 0;  ///< What lies before belongs to an earlier launch.
  std::optional<Rank> rank;    ///< Its lines where lines have tags, all where none has.
  bool only_tagged = false;    ///< With `rank`: lines without tags are nobody's and left out.
  bool by_srun = false;        ///< Tags are the labels of `srun --label`, else mpirun's.
  std::size_t most = 20;
};

/// Oldest first; empty where there is no such file.
[[nodiscard]] std::vector<std::string> last_lines(const TailQuestion& question);

/// 0 where there is no such file.
[[nodiscard]] std::int64_t file_bytes(const std::string& path);

}  // namespace quadrille::internal
