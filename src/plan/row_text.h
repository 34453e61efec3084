// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reading the free text of published rows.

#include <cstdint>
#include <string>
#include <string_view>

namespace quadrille::internal {

[[nodiscard]] std::string lowered(std::string_view text);
/// Contains `word` (lower case), in any case.
[[nodiscard]] bool has_word(std::string_view text, std::string_view word);

/// "8x 200 Gb/s HDR InfiniBand per node", "RDMA 400 Gb/s per GPU", "RoCE 1600 Gbps/node".
struct NetworkText {
  double node_bits = 0;     ///< Per second, of one node; 0: not said.
  double device_bits = 0;   ///< The same of one device.
  std::string_view fabric;  ///< Name in the link library; empty: not said.

  /// Bytes per second; 0 where the text says nothing.
  [[nodiscard]] double bandwidth_per_device(std::int64_t devices_per_node) const {
    if (device_bits > 0) return device_bits / 8;
    return devices_per_node > 0 ? node_bits / 8 / static_cast<double>(devices_per_node) : 0;
  }
};
[[nodiscard]] NetworkText network_from(std::string_view text);

}  // namespace quadrille::internal
