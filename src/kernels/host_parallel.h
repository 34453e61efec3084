// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a host operation spreads over the rank's OpenMP pool. Blocks are cut by extents alone, never
// by the number of threads, so a result that is put together per block does not depend on it.

#include <algorithm>
#include <cstdint>

namespace quadrille::internal {

/// Elements of a block of an element-by-element operation: 32 KiB of floats, which leaves a first
/// level cache room for a second operand's lines.
inline constexpr std::int64_t kElementBlock = 8192;

/// body(first, count) for each block of [0, count).
template <class Body>
void parallel_blocks(std::int64_t count, std::int64_t block, const Body& body) {
  const std::int64_t blocks = (count + block - 1) / block;
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (std::int64_t i = 0; i < blocks; ++i) {
    body(i * block, std::min(block, count - i * block));
  }
}

/// body(task) for each task of [0, tasks), handed out as threads become free: for tasks of unequal
/// cost that share no output.
template <class Body>
void parallel_tasks(std::int64_t tasks, const Body& body) {
#pragma omp parallel for schedule(dynamic, 1) if (tasks > 1)
  for (std::int64_t i = 0; i < tasks; ++i) body(i);
}

}  // namespace quadrille::internal
