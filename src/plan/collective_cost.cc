// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quadrille::internal {
namespace {

double span_of(const LinkLevel& level, const ClusterSpec& cluster) {
  return static_cast<double>(level.spans == 0 ? cluster.device_count() : level.spans);
}

/// Bandwidth that is left after `runs` inner runs are joined: fabrics are tapered and routes
/// collide.
double tapered(const LinkLevel& level, double runs) {
  const double doublings = runs > 1 ? std::log2(runs) : 0;
  return level.bandwidth * level.efficiency / (1 + level.taper * doublings);
}

}  // namespace

GroupPath path_of(const ClusterSpec& cluster, const RankGroup& group) {
  GroupPath path{.bandwidth = std::numeric_limits<double>::max()};
  double members = 1;  // Of the group in one run of the levels so far.
  for (const LinkLevel& level : cluster.links) {
    const double fit = std::floor(span_of(level, cluster) / group.stride);
    const double here = std::clamp(fit, members, group.size);
    if (here <= members) continue;
    const double runs = here / members;
    // Each of the run's G devices brings its way out; G/k groups share them, k of them are this
    // one's.
    path.bandwidth = std::min(path.bandwidth, tapered(level, runs) * members);
    path.latency += level.latency.count() * std::ceil(std::log2(runs));
    path.ring_steps += level.latency.count() * (runs - 1) * (group.size / here);
    path.half = std::max(path.half, static_cast<double>(level.half.count()));
    path.switch_sum = members == 1 ? level.switch_sum : 1;
    members = here;
  }
  return path;
}

double collective_seconds(Collective kind, double bytes, const RankGroup& group,
                          const ClusterSpec& cluster) {
  if (group.size <= 1 || bytes <= 0) return 0;
  const GroupPath path = path_of(cluster, group);
  const double passes = kind == Collective::kAllReduce ? 2 : 1;
  const double moved = passes * (group.size - 1) / group.size * bytes;
  const double gain = kind == Collective::kAllReduce ? path.switch_sum : 1;
  const double ring = passes * path.ring_steps;
  const double tree = passes * 2 * path.latency;
  const double steps = kind == Collective::kRingGather ? ring : std::min(ring, tree);
  return moved / (path.bandwidth * gain) * (1 + path.half / bytes) + steps;
}

double message_seconds(double bytes, double stride, const ClusterSpec& cluster) {
  const auto reaches = [&](const LinkLevel& level) { return stride < span_of(level, cluster); };
  const auto found = std::find_if(cluster.links.begin(), cluster.links.end(), reaches);
  const LinkLevel& level = found == cluster.links.end() ? cluster.links.back() : *found;
  return level.latency.count() + bytes / (level.bandwidth * level.efficiency);
}

}  // namespace quadrille::internal
