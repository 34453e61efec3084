// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/device/host_binding.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "quadrille/base/check.h"

namespace quadrille {
namespace {

Result<void> pin_this_thread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    QD_CHECK(core >= 0 && core < CPU_SETSIZE);
    CPU_SET(static_cast<std::size_t>(core), &set);
  }
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    return fail(errno_error("cannot pin a rank to its cores", errno));
  }
  return {};
}

}  // namespace

HostShare share_of_host(const HostTopology& topology, Rank rank, int ranks_on_host) {
  const int cores = static_cast<int>(topology.cores.size());
  QD_CHECK(cores >= 1);
  QD_CHECK(rank.value >= 0 && rank.value < ranks_on_host);
  HostShare share;
  share.oversubscribed = ranks_on_host > cores;
  // Oversubscribed ranks spread evenly, one core each; otherwise the first `cores % ranks` get one
  // more.
  int first = static_cast<int>(static_cast<std::int64_t>(rank.value) * cores / ranks_on_host);
  if (!share.oversubscribed) {
    const int each = cores / ranks_on_host;
    const int more = cores % ranks_on_host;
    first = rank.value * each + std::min(rank.value, more);
    share.threads = each + (rank.value < more ? 1 : 0);
  }
  if (!topology.time_quota) {
    const auto start = topology.cores.begin() + first;
    share.cores.assign(start, start + share.threads);
  }
  return share;
}

Result<void> bind_this_thread(const HostShare& share) {
  QD_CHECK(share.threads >= 1);
  // The pool's threads are started by this one at its first parallel region and inherit its cores.
  if (!share.cores.empty()) QD_RETURN_IF_ERROR(pin_this_thread(share.cores));
  omp_set_dynamic(0);
  omp_set_num_threads(share.threads);
  return {};
}

}  // namespace quadrille
