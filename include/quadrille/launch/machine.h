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

/// How fast a core ticks, and how that is known.
struct CoreClock {
  double hertz = 0;
  std::string source;
};

/// The highest clock that /sys names; else measured, as virtual machines hide it: a chain of
/// dependent multiplications takes 3 cycles each on every x86-64 core with fused multiply-add.
/// Takes about 20 ms.
[[nodiscard]] std::optional<CoreClock> read_core_clock();

/// A core's theoretical fp32 peak, with its arithmetic in a sentence.
struct CorePeak {
  std::optional<double> flops_per_second;
  std::string source;  ///< Starts with "unknown" without a figure.
};

/// Reads a /proc/cpuinfo text: vector width and multiply-add units follow from vendor, family and
/// model; for a processor that the table does not know there is no figure.
[[nodiscard]] CorePeak core_peak(const std::string& cpuinfo, const std::optional<CoreClock>& clock);

}  // namespace quadrille
