// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a cluster is, as plain data: devices with their peaks and what is reached of them, nodes,
// and the levels of links that join ever more devices (inside a node, a rack, a fabric, between
// sites). The planner needs nothing else, so a cluster that nobody here owns can be planned for.
// Values come from a file (cluster_reader.h), from the built-in library (device_library.h) or from
// a measurement.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille {

/// The number format of a matrix product's factors.
enum class NumberFormat : std::uint8_t { kFp32, kTf32, kFp16, kBf16, kFp8, kFp4 };
inline constexpr EnumTable<NumberFormat, 6> kNumberFormatText{{{{NumberFormat::kFp32, "fp32"},
                                                                {NumberFormat::kTf32, "tf32"},
                                                                {NumberFormat::kFp16, "fp16"},
                                                                {NumberFormat::kBf16, "bf16"},
                                                                {NumberFormat::kFp8, "fp8"},
                                                                {NumberFormat::kFp4, "fp4"}}}};

/// What a device reaches of its peaks: one set per kind of device, each with a physical meaning.
struct DeviceEfficiency {
  double matmul = 0.7;  ///< Of the 16-bit (or wider) peak by a product too large to hurt itself.
  double matmul_fp8 = 0.6;  ///< The same of the fp8 peak; power caps lower it.
  double matmul_fp4 = 0.5;
  double attention = 0.5;           ///< Of the 16-bit peak by the vendor's fused attention.
  double attention_portable = 0.4;  ///< The same by kernels written for more than this device.
  double memory = 0.8;              ///< Of the memory's bandwidth by a streaming kernel.
  double tile = 64;                 ///< Extent of a product's side that doubles its cost.
  Seconds kernel{3e-6};             ///< What a kernel takes however little it does.
  Seconds launch{6e-6};             ///< Host time to issue one operation of an eager framework.
};

struct DeviceSpec {
  std::string name;
  Bytes memory;
  double memory_bandwidth = 0;      ///< Bytes per second.
  std::array<double, 6> peak = {};  ///< Flop/s, dense, by NumberFormat; 0: has no such units.
  DeviceEfficiency efficiency;
  std::string source = {};                 ///< Where the figures were read.
  std::vector<std::string> recalled = {};  ///< Fields known from memory alone, to be checked.

  /// 0 where the device has no such units.
  [[nodiscard]] double peak_of(NumberFormat format) const {
    return peak[static_cast<std::size_t>(format)];
  }
};

/// Nodes of one kind, side by side.
struct NodeGroup {
  std::string device;  ///< Name of a DeviceSpec of the cluster.
  std::int64_t count = 1;
  std::int64_t devices_per_node = 1;
  Bytes host_memory = {};  ///< Of one node; 0: unknown.
  Bytes disk = {};         ///< Of one node; 0: unknown.
};

/// Links that join runs of `spans` consecutive devices. The innermost level comes first; a message
/// between two devices crosses the first level whose run holds both. Time of a transfer:
/// latency + bytes / (bandwidth * efficiency) * (1 + half / bytes).
struct LinkLevel {
  std::string name;
  std::int64_t spans = 0;   ///< Devices joined; 0: all of the cluster.
  double bandwidth = 0;     ///< Bytes per second and device, one direction.
  Seconds latency = {};     ///< Of one hop.
  double efficiency = 0.8;  ///< Share of the bandwidth that the largest messages reach.
  Bytes half{0};            ///< Message size at which half of that is reached.
  double switch_sum = 1;    ///< Gain of an all-reduce where the switches add (NVLink SHARP).
  double taper = 0;         ///< Share of bandwidth lost with each doubling of spanned nodes.
  std::string source = {};
};

/// Immutable once read or made.
struct ClusterSpec {
  std::string name;
  std::vector<DeviceSpec> devices;
  std::vector<NodeGroup> nodes;
  std::vector<LinkLevel> links;
  std::string measured = {};  ///< Date of the measurement; empty: figures of a data sheet.

  [[nodiscard]] std::int64_t device_count() const {
    std::int64_t sum = 0;
    for (const NodeGroup& group : nodes) sum += group.count * group.devices_per_node;
    return sum;
  }
  [[nodiscard]] const DeviceSpec* find_device(std::string_view device) const {
    for (const DeviceSpec& candidate : devices) {
      if (candidate.name == device) return &candidate;
    }
    return nullptr;
  }
};

/// Most devices of a cluster that this planner takes.
inline constexpr std::int64_t kDevicesMost = 10'000'000;

/// All that is wrong with a cluster, each with its path: counts below 1, bandwidths that are zero,
/// negative, missing or not finite, devices that nothing describes, devices without a path between
/// them, levels out of order. Empty: sound.
[[nodiscard]] std::vector<Diagnostic> check_cluster(const ClusterSpec& cluster);

}  // namespace quadrille
