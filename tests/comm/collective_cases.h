// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One table of collectives, sizes and places of memory for every backend. A case fills each rank's
// tensor with values that any rank can compute, runs the collective and compares bits with a serial
// sum in rank order.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quadrille/comm/world.h"
#include "quadrille/device/device.h"

namespace quadrille::testing {

/// Element counts: none, one, odd, primes, fewer than ranks, and more than any internal piece.
[[nodiscard]] std::vector<std::int64_t> case_sizes();

using DeviceMaker = std::function<std::unique_ptr<Device>()>;

/// Runs every collective at every size on `group`, in memory that the group leased, at an offset
/// that differs between ranks there, and in memory of the rank's own; the world's rank seeds the
/// values. Errors: kCorrupt naming the first wrong element, or what a collective failed with.
[[nodiscard]] Result<void> check_collectives(Communicator& group, const std::vector<Rank>& members,
                                             const DeviceMaker& make_device = make_host_device);

/// Barrier, gather of unequal bytes, sum of doubles, agreement.
[[nodiscard]] Result<void> check_control(World& world);

/// The groups of even and of odd ranks, and those of one; the same set gives the same communicator.
[[nodiscard]] Result<void> check_groups(World& world);

}  // namespace quadrille::testing
