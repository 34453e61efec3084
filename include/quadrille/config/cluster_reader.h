// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cluster files. A JSON object (comments allowed) with `version`, `name`, `nodes`, `links` and, for
// devices that the library (device_library.h) does not know or describes otherwise, `devices`:
//
//   {"version": 1, "name": "two boxes",
//    "devices": [{"name": "tuned H100", "like": "H100-SXM5-80GB", "efficiency": {"matmul": 0.7}}],
//    "nodes": [{"device": "tuned H100", "count": 2, "devices_per_node": 8}],
//    "links": [{"name": "nvlink4", "spans": 8}, {"name": "roce", "spans": 0, "gb_per_s": 25}]}
//
// A link that is named as in link_library() takes from there what it does not say. Units: GB/s and
// Tflop/s are 10^9 and 10^12, GiB 2^30, latencies in microseconds.

#include <string>
#include <string_view>

#include "quadrille/base/json.h"
#include "quadrille/config/cluster_spec.h"

namespace quadrille {

/// Errors: kInvalid with every diagnostic: JSON, unknown or missing keys, kinds, and all that
/// check_cluster finds. Linear in the text, whatever counts it names.
[[nodiscard]] Result<ClusterSpec> parse_cluster(std::string_view text, const std::string& file);
/// Errors: those, kNotFound, kInternal (I/O).
[[nodiscard]] Result<ClusterSpec> read_cluster_file(const std::string& path);

/// Every value, library entries spelled out, so that the file keeps its meaning when the library
/// changes; reads back equal.
[[nodiscard]] Json to_json(const ClusterSpec& cluster);

}  // namespace quadrille
