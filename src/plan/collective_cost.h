// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a transfer takes on the levels of a cluster. A group is an axis of the layout: `size` ranks
// that stand `stride` devices apart. Where a group leaves a level's run it shares the way out with
// the other groups of that run: of a node with G devices, a group with k of them has k/G of the
// node's way out, which is what k of G rails give.

#include "quadrille/config/cluster_spec.h"

namespace quadrille::internal {

struct RankGroup {
  double size = 1;
  double stride = 1;
};

/// Bytes per second that each rank of the group gets round a ring, seconds of one hop, and gain
/// where switches sum.
struct GroupPath {
  double bandwidth = 0;
  double latency = 0;     ///< Of a tree's or recursive step over all levels, once.
  double ring_steps = 0;  ///< Of a ring through all members: each step's own hop.
  double half = 0;
  double switch_sum = 1;
};

[[nodiscard]] GroupPath path_of(const ClusterSpec& cluster, const RankGroup& group);

/// kRingGather: a gather or scatter that only knows rings, as libraries did until about 2022; later
/// ones also go hierarchically (NVLS, PAT).
enum class Collective : std::uint8_t { kAllReduce, kGather, kScatter, kRingGather };

/// `bytes` is the whole vector on each rank: reduced, gathered or scattered.
[[nodiscard]] double collective_seconds(Collective kind, double bytes, const RankGroup& group,
                                        const ClusterSpec& cluster);

/// One message between ranks `stride` apart.
[[nodiscard]] double message_seconds(double bytes, double stride, const ClusterSpec& cluster);

}  // namespace quadrille::internal
