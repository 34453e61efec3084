// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// From what the device room found on this host to the MachineFacts that a plan assumes: adds free
// disk, a fingerprint and the theoretical peak of the processor, where that can be derived.

#include <optional>
#include <string>

#include "quadrille/base/units.h"
#include "quadrille/plan/plan.h"

namespace quadrille {

/// As device's read_host_topology() tells it.
struct HostFacts {
  int cores = 1;
  Bytes memory;
  std::string processor;
  std::string run_directory;  ///< Or where it will be: free disk is asked of its nearest parent.
  std::string backend = "threads";
};

/// Never fails: a fact that cannot be read stays unknown.
[[nodiscard]] MachineFacts read_machine_facts(const HostFacts& host);

/// A core's theoretical fp32 peak, for the arithmetic that the source sentence shows.
struct CorePeak {
  std::optional<double> flops_per_second;
  std::string source;  ///< "unknown" without a figure.
};

/// Reads a /proc/cpuinfo text and the clock that /sys names, if it does. Vector width and fused
/// multiply-add units follow from vendor, family and model; an unknown family or clock gives
/// nothing.
[[nodiscard]] CorePeak core_peak(const std::string& cpuinfo, std::optional<double> clock_hertz_max);

}  // namespace quadrille
