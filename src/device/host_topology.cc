// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What hwloc, the affinity mask and the control groups say about the cores of this process.

#include <hwloc.h>
#include <hwy/targets.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>

#include "device/cgroup_limits.h"
#include "quadrille/device/host_binding.h"

namespace quadrille {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Result<Topology> load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail(Code::kInternal, "hwloc cannot start");
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) return fail(Code::kInternal, "hwloc cannot read the topology");
  return topology;
}

/// The first processor that we may use of each core, in topology order: hyperthreads share one
/// core's vector units, so a second thread there would not compute more.
std::vector<int> cores_within(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  std::vector<int> cores;
  const auto type =
      hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr) {
    const Bitmap usable(hwloc_bitmap_alloc());
    hwloc_bitmap_and(usable.get(), core->cpuset, allowed);
    const int processor = hwloc_bitmap_first(usable.get());
    if (processor >= 0) cores.push_back(processor);
  }
  return cores;
}

int numa_nodes_within(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  int nodes = 0;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    if (hwloc_bitmap_intersects(node->cpuset, allowed)) ++nodes;
  }
  return std::max(nodes, 1);
}

std::string processor_name(hwloc_topology_t topology) {
  const hwloc_obj_t package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, nullptr);
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  for (const hwloc_obj_t object : {package, root}) {
    const char* model =
        object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, "CPUModel");
    if (model != nullptr) return model;
  }
  return "unknown processor";
}

/// Highway's best target has the lowest bit; only those that our kernels are compiled for count.
std::string best_instruction_set() {
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  if (usable == 0) return "scalar";
  return hwy::TargetName(usable & -usable);
}

void apply_time_quota(HostTopology& host, double processors) {
  const auto whole = static_cast<std::size_t>(std::max(1.0, std::floor(processors)));
  if (whole >= host.cores.size()) return;
  host.cores.resize(whole);
  host.time_quota = true;
}

}  // namespace

Result<HostTopology> read_host_topology() {
  QD_ASSIGN_OR_RETURN(const Topology topology, load_topology());
  const Bitmap allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_THREAD) != 0) {
    return fail(errno_error("cannot read the processor affinity", errno));
  }
  HostTopology host;
  host.cores = cores_within(topology.get(), allowed.get());
  if (host.cores.empty()) return fail(Code::kInternal, "hwloc finds no processor that we may use");
  host.numa_nodes = numa_nodes_within(topology.get(), allowed.get());
  host.processor = processor_name(topology.get());
  host.instruction_set = best_instruction_set();
  host.memory = Bytes(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);

  const internal::CgroupLimits limits = internal::read_cgroup_limits();
  if (limits.memory) host.memory = std::min(host.memory, *limits.memory);
  if (limits.processors) apply_time_quota(host, *limits.processors);
  return host;
}

}  // namespace quadrille
