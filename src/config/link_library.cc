// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "quadrille/config/device_library.h"

namespace quadrille {
namespace {

constexpr double kGiga = 1e9;
constexpr std::string_view kLinks = "stas00/ml-engineering network/README.md";

LinkLevel link(std::string name, double gb_per_s, double latency_us, double efficiency) {
  return {.name = std::move(name),
          .bandwidth = gb_per_s * kGiga,
          .latency = Seconds(latency_us * 1e-6),
          .efficiency = efficiency,
          .half = Bytes(1 << 20)};
}

// Efficiencies: measured bus bandwidth of the largest all-reduce over the data sheet's figure, e.g.
// nvlink3 234.9 / 300, nvlink4 without sums in the switch 367 / 450; switch_sum 480 / 367.
std::vector<LinkLevel> make_links() {
  std::vector<LinkLevel> links = {
      link("nvlink2", 150, 4, 0.9), link("nvlink3", 300, 4, 0.86), link("nvlink4", 450, 4, 0.89),
      link("nvlink5", 900, 4, 0.7), link("pcie4", 31, 6, 0.6),     link("pcie5", 63, 6, 0.6),
      link("xgmi2", 175, 6, 0.6),   link("xgmi3", 448, 6, 0.6),    link("infiniband", 0, 12, 0.86),
      link("roce", 0, 14, 0.75),    link("efa", 0, 20, 0.7),       link("omnipath", 0, 14, 0.23),
      link("ethernet", 0, 25, 0.6),
  };
  for (LinkLevel& level : links) level.source = kLinks;
  const auto named = [&](std::string_view name) -> LinkLevel& {
    return *std::find_if(links.begin(), links.end(),
                         [&](const LinkLevel& level) { return level.name == name; });
  };
  named("nvlink4").switch_sum = 1.3;
  named("nvlink5").switch_sum = 1.25;
  for (const std::string_view fabric : {"infiniband", "roce", "efa", "omnipath", "ethernet"}) {
    named(fabric).half = Bytes(4 << 20);
    named(fabric).taper = 0.027;
  }
  return links;
}

constexpr std::array<HostSpec, 20> kHosts{{
    {"DGX V100", "V100-SXM2-32GB", 8, 8, "nvlink2", 12.5 * kGiga / 2, "infiniband", "from memory",
     true},
    {"DGX-2", "V100-SXM2-32GB", 16, 16, "nvlink2", 12.5 * kGiga / 2, "infiniband", "from memory",
     true},
    {"DGX A100", "A100-SXM4-80GB", 8, 8, "nvlink3", 25 * kGiga, "infiniband",
     "Narayanan et al. 2021; Calculon a100 network"},
    {"DGX A100 40GB", "A100-SXM4-40GB", 8, 8, "nvlink3", 25 * kGiga, "infiniband",
     "Narayanan et al. 2021"},
    {"AWS P4d", "A100-SXM4-40GB", 8, 8, "nvlink3", 6.25 * kGiga, "efa", "from memory", true},
    {"PCIe server A100", "A100-PCIe-80GB", 8, 8, "pcie4", 6.25 * kGiga, "ethernet", "from memory",
     true},
    {"DGX H100", "H100-SXM5-80GB", 8, 8, "nvlink4", 50 * kGiga, "infiniband", kLinks},
    {"AWS P5", "H100-SXM5-80GB", 8, 8, "nvlink4", 50 * kGiga, "efa", kLinks},
    {"GCP A3 Mega", "H100-SXM5-80GB", 8, 8, "nvlink4", 25 * kGiga, "ethernet", kLinks},
    {"GCP A3 High", "H100-SXM5-80GB", 8, 8, "nvlink4", 12.5 * kGiga, "ethernet", kLinks},
    {"Grand Teton", "H100-SXM-96GB-500W", 8, 8, "nvlink4", 50 * kGiga, "roce",
     "pytorch/torchtitan benchmarks; Llama 3 paper"},
    {"PCIe server H100", "H100-PCIe-80GB", 8, 8, "pcie5", 25 * kGiga, "ethernet", "from memory",
     true},
    {"DGX H200", "H200-SXM", 8, 8, "nvlink4", 50 * kGiga, "infiniband", kLinks},
    {"DGX B200", "B200-SXM", 8, 8, "nvlink5", 50 * kGiga, "infiniband", kLinks},
    {"DGX B300", "B300-SXM", 8, 8, "nvlink5", 100 * kGiga, "infiniband", kLinks},
    {"GB200 NVL72", "GB200", 4, 72, "nvlink5", 50 * kGiga, "infiniband",
     "NVIDIA/dgxc-benchmarking; NIC from memory", true},
    {"GB300 NVL72", "GB300", 4, 72, "nvlink5", 100 * kGiga, "infiniband",
     "NVIDIA/dgxc-benchmarking; NIC from memory", true},
    {"PCIe server L40S", "L40S", 8, 8, "pcie4", 6.25 * kGiga, "ethernet", "from memory", true},
    {"Frontier node", "MI250X-GCD", 8, 8, "xgmi2", 12.5 * kGiga, "ethernet", "from memory", true},
    {"MI300X platform", "MI300X", 8, 8, "xgmi3", 50 * kGiga, "roce", "from memory", true},
}};

}  // namespace

std::span<const LinkLevel> link_library() {
  static const std::vector<LinkLevel> links = make_links();
  return links;
}

const LinkLevel* find_known_link(std::string_view name) {
  const auto links = link_library();
  const auto found = std::find_if(links.begin(), links.end(),
                                  [&](const LinkLevel& level) { return level.name == name; });
  return found == links.end() ? nullptr : &*found;
}

std::span<const HostSpec> host_library() { return kHosts; }

const HostSpec* usual_host(std::string_view device) {
  const auto found = std::find_if(kHosts.begin(), kHosts.end(),
                                  [&](const HostSpec& host) { return host.device == device; });
  return found == kHosts.end() ? nullptr : &*found;
}

Result<ClusterSpec> known_cluster(const KnownClusterOptions& options) {
  const DeviceSpec* device = find_known_device(options.device);
  if (device == nullptr) {
    return fail(Code::kInvalid, "no device \"" + std::string(options.device) + "\" is known");
  }
  const HostSpec* host = usual_host(device->name);
  if (host == nullptr)
    return fail(Code::kInvalid, "no host with \"" + device->name + "\" is known");
  const std::int64_t in_node = std::min(
      options.count, options.devices_per_node > 0 ? options.devices_per_node : host->devices);
  if (options.count < 1 || options.count % in_node != 0) {
    return fail(Code::kInvalid, std::to_string(options.count) + " devices make no whole nodes of " +
                                    std::to_string(in_node));
  }
  const LinkLevel* fabric = find_known_link(options.fabric.empty() ? host->fabric : options.fabric);
  if (fabric == nullptr) {
    return fail(Code::kInvalid, "no fabric \"" + std::string(options.fabric) + "\" is known");
  }
  ClusterSpec cluster;
  cluster.name = std::string(host->name);
  cluster.devices = {*device};
  cluster.nodes = {
      {.device = device->name, .count = options.count / in_node, .devices_per_node = in_node}};
  LinkLevel inner = *find_known_link(host->scale_up_link);
  inner.spans = std::max(in_node, host->scale_up > host->devices ? host->scale_up : in_node);
  LinkLevel outer = *fabric;
  outer.bandwidth =
      options.network_bandwidth > 0 ? options.network_bandwidth : host->network_bandwidth;
  cluster.links = {std::move(inner), std::move(outer)};
  return cluster;
}

}  // namespace quadrille
