// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/cluster_fields.h"

#include <array>

namespace quadrille::internal {
namespace {

constexpr double kGiga = 1e9;
constexpr double kGibi = 1024.0 * 1024 * 1024;
constexpr double kMicro = 1e-6;

using Device = ClusterField<DeviceSpec>;
using Efficiency = ClusterField<DeviceEfficiency>;
using Node = ClusterField<NodeGroup>;
using Link = ClusterField<LinkLevel>;

const std::array<Device, 4> kDevice{{
    {"name", Device::Text([](DeviceSpec& d) -> std::string& { return d.name; }), 1, true},
    {"memory_gib", Device::Size([](DeviceSpec& d) -> Bytes& { return d.memory; }), kGibi},
    {"memory_gb_per_s", Device::Real([](DeviceSpec& d) -> double& { return d.memory_bandwidth; }),
     kGiga},
    {"source", Device::Text([](DeviceSpec& d) -> std::string& { return d.source; })},
}};

using Share = DeviceEfficiency;
const std::array<Efficiency, 9> kEfficiency{{
    {"matmul", Efficiency::Real([](Share& e) -> double& { return e.matmul; })},
    {"matmul_fp8", Efficiency::Real([](Share& e) -> double& { return e.matmul_fp8; })},
    {"matmul_fp4", Efficiency::Real([](Share& e) -> double& { return e.matmul_fp4; })},
    {"attention", Efficiency::Real([](Share& e) -> double& { return e.attention; })},
    {"attention_portable",
     Efficiency::Real([](Share& e) -> double& { return e.attention_portable; })},
    {"memory", Efficiency::Real([](Share& e) -> double& { return e.memory; })},
    {"tile", Efficiency::Real([](Share& e) -> double& { return e.tile; })},
    {"kernel_us", Efficiency::Duration([](Share& e) -> Seconds& { return e.kernel; }), kMicro},
    {"launch_us", Efficiency::Duration([](Share& e) -> Seconds& { return e.launch; }), kMicro},
}};

const std::array<Node, 5> kNode{{
    {"device", Node::Text([](NodeGroup& n) -> std::string& { return n.device; }), 1, true},
    {"count", Node::Whole([](NodeGroup& n) -> std::int64_t& { return n.count; }), 1, true},
    {"devices_per_node",
     Node::Whole([](NodeGroup& n) -> std::int64_t& { return n.devices_per_node; }), 1, true},
    {"host_memory_gib", Node::Size([](NodeGroup& n) -> Bytes& { return n.host_memory; }), kGibi},
    {"disk_gib", Node::Size([](NodeGroup& n) -> Bytes& { return n.disk; }), kGibi},
}};

const std::array<Link, 9> kLink{{
    {"name", Link::Text([](LinkLevel& l) -> std::string& { return l.name; }), 1, true},
    {"spans", Link::Whole([](LinkLevel& l) -> std::int64_t& { return l.spans; }), 1, true},
    {"gb_per_s", Link::Real([](LinkLevel& l) -> double& { return l.bandwidth; }), kGiga},
    {"latency_us", Link::Duration([](LinkLevel& l) -> Seconds& { return l.latency; }), kMicro},
    {"efficiency", Link::Real([](LinkLevel& l) -> double& { return l.efficiency; })},
    {"half_kib", Link::Size([](LinkLevel& l) -> Bytes& { return l.half; }), 1024},
    {"switch_sum", Link::Real([](LinkLevel& l) -> double& { return l.switch_sum; })},
    {"taper", Link::Real([](LinkLevel& l) -> double& { return l.taper; })},
    {"source", Link::Text([](LinkLevel& l) -> std::string& { return l.source; })},
}};

}  // namespace

std::span<const ClusterField<DeviceSpec>> device_fields() { return kDevice; }
std::span<const ClusterField<DeviceEfficiency>> efficiency_fields() { return kEfficiency; }
std::span<const ClusterField<NodeGroup>> node_fields() { return kNode; }
std::span<const ClusterField<LinkLevel>> link_fields() { return kLink; }

}  // namespace quadrille::internal
