// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the control groups of this process leave it: processor time and memory. Both versions are
// read, version 1 (one hierarchy per controller) and version 2 (one for all), and a limit of any
// ancestor counts. A file that is absent or says "max" is no limit.

#include <optional>
#include <string>

#include "quadrille/base/units.h"

namespace quadrille::internal {

struct CgroupLimits {
  std::optional<double> processors;  ///< Processor time per time, e.g. 1.5.
  std::optional<Bytes> memory;
};

struct CgroupPlaces {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

[[nodiscard]] CgroupLimits read_cgroup_limits(const CgroupPlaces& places = {});

}  // namespace quadrille::internal
