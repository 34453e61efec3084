// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Times of collectives as training meets them: each rank writes its whole buffer, all meet, one
// all-reduce is timed, each reads the result. Large buffers rotate through more memory than caches
// hold. What is compared alternates call by call, in one run; a time is that of the slowest rank.

#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/comm/world.h"

namespace quadrille {

struct CollectiveBench {
  std::vector<Bytes> sizes;
  int most_calls = 200;               ///< Of small sizes; large ones take fewer, at least 9.
  bool library = true;                ///< MPI's own beside ours, where ranks are MPI's.
  Bytes rotation = Bytes(256 << 20);  ///< Per rank; buffers above 1 MiB rotate through it.
};

/// Of one size, call by call.
struct CollectiveTimes {
  Bytes bytes;
  std::vector<double> ours;     ///< Seconds, in memory that the group leased.
  std::vector<double> library;  ///< Seconds of MPI's own; empty for ranks that are threads.
  double ping_pong_ns = 0;      ///< One way, of a cache line between two cores, beside it.
};

/// Collective over the world; the same on every rank.
[[nodiscard]] Result<std::vector<CollectiveTimes>> time_all_reduce(World& world,
                                                                   const CollectiveBench& bench);

/// Bytes a second that all ranks together move by a = b = a + b on arrays of their own (2 reads and
/// 2 writes): four times what an all-reduce in place can reach. Collective.
[[nodiscard]] Result<double> in_place_sum_rate(World& world);

}  // namespace quadrille
