// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Devices, hosts and fabrics of the field, from data sheets and published measurements, so that a
// cluster file can name them. Each figure's source is in its entry; what was recalled and not read
// is listed in `recalled`. The efficiencies are fitted to published runs (docs/planner.md).

#include <span>
#include <string_view>

#include "quadrille/config/cluster_spec.h"

namespace quadrille {

[[nodiscard]] std::span<const DeviceSpec> device_library();
/// By name, or by the usual spellings of published tables ("A100-80GB", "H100 SXM"); null: unknown.
[[nodiscard]] const DeviceSpec* find_known_device(std::string_view name);

/// A host as it is sold: devices in it, the links inside, and the device's share of the ways out.
struct HostSpec {
  std::string_view name;
  std::string_view device;
  std::int64_t devices = 8;
  std::int64_t scale_up = 8;  ///< Devices that the inner links join; more than a host in a rack.
  std::string_view scale_up_link;  ///< A name of link_library().
  double network_bandwidth = 0;    ///< Bytes per second, device and direction.
  std::string_view fabric = "infiniband";
  std::string_view source;
  bool recalled = false;  ///< The network's figure was not read anywhere.
};
[[nodiscard]] std::span<const HostSpec> host_library();
/// The first host that holds this device; null: none is known.
[[nodiscard]] const HostSpec* usual_host(std::string_view device);

/// Kinds of links. Bandwidths of networks are the host's; 0 here.
[[nodiscard]] std::span<const LinkLevel> link_library();
[[nodiscard]] const LinkLevel* find_known_link(std::string_view name);

struct KnownClusterOptions {
  std::string_view device = {};
  std::int64_t count = 1;             ///< Devices of the cluster.
  std::int64_t devices_per_node = 0;  ///< 0: as the usual host has.
  double network_bandwidth = 0;       ///< Per device; 0: the usual host's.
  std::string_view fabric = {};       ///< Empty: the usual host's.
};
/// Errors: kInvalid for an unknown device or fabric, or counts that make no whole nodes.
[[nodiscard]] Result<ClusterSpec> known_cluster(const KnownClusterOptions& options);

}  // namespace quadrille
