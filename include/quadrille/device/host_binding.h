// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the cores of a host are shared out among its ranks: each rank gets a contiguous set of cores
// and one OpenMP pool of as many threads, pinned; where ranks exceed cores, ranks share cores and
// every wait yields.

#include <string>
#include <vector>

#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille {

/// What this process may use, honouring affinity and cgroup limits (hwloc).
struct HostTopology {
  std::vector<int> cores;  ///< Operating-system processor numbers, one per core, in topology order.
  /// `cores` is cut to a quota of processor time; which cores is then the kernel's choice.
  bool time_quota = false;
  int numa_nodes = 1;
  Bytes memory;                 ///< The least of physical memory and the cgroup's limit.
  std::string processor;        ///< "AMD EPYC".
  std::string instruction_set;  ///< What our kernels dispatch to, e.g. "AVX3_ZEN4", "AVX2".
};
[[nodiscard]] Result<HostTopology> read_host_topology();

struct HostShare {
  std::vector<int> cores;  ///< To pin to; empty under a quota of processor time.
  int threads = 1;         ///< Of the rank's OpenMP pool.
  bool oversubscribed = false;
};

/// The share of local rank `rank` of `ranks_on_host`.
[[nodiscard]] HostShare share_of_host(const HostTopology& topology, Rank rank, int ranks_on_host);

/// Pins the calling thread and sizes the OpenMP pool that it will own. Called once, first thing, by
/// the thread that runs a rank.
[[nodiscard]] Result<void> bind_this_thread(const HostShare& share);

}  // namespace quadrille
