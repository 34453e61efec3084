// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tables of a cluster file's keys. Reader and writer follow from them: a new key is one row.

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "quadrille/config/cluster_spec.h"

namespace quadrille::internal {

/// A member of one of the objects, in the file's unit: `scale` of it make the member's.
template <class Object>
struct ClusterField {
  using Text = std::string& (*)(Object&);
  using Real = double& (*)(Object&);
  using Whole = std::int64_t& (*)(Object&);
  using Size = Bytes& (*)(Object&);
  using Duration = Seconds& (*)(Object&);

  std::string_view key;
  std::variant<Text, Real, Whole, Size, Duration> slot;
  double scale = 1;
  bool required = false;
};

[[nodiscard]] std::span<const ClusterField<DeviceSpec>> device_fields();
[[nodiscard]] std::span<const ClusterField<DeviceEfficiency>> efficiency_fields();
[[nodiscard]] std::span<const ClusterField<NodeGroup>> node_fields();
[[nodiscard]] std::span<const ClusterField<LinkLevel>> link_fields();

inline constexpr std::int64_t kClusterVersion = 1;

}  // namespace quadrille::internal
