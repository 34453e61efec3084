// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who belongs together: what both backends know of a communicator's rank set.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "quadrille/base/ids.h"
#include "quadrille/comm/world.h"

namespace quadrille::internal {

/// One rank's view of one group. The world that owns the options outlives it.
struct Group {
  std::vector<Rank> members;  ///< World ranks, ascending.
  int me = 0;                 ///< This rank's place among the members.
  std::uint64_t id = 0;       ///< Hash of the members; the flight recorder's name for the group.
  const WorldOptions* options = nullptr;
  bool always_yield = false;  ///< The host has fewer cores than ranks: no wait may spin.

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] Rank world_rank() const { return members[static_cast<std::size_t>(me)]; }
};

/// Errors: kInvalid unless the members are ascending ranks of the world, `me` among them.
[[nodiscard]] Result<Group> make_group(std::span<const Rank> members, const World& world,
                                       const WorldOptions& options);

/// Compares the sets that all ranks of the world passed to group(): each member of this rank's set
/// must have passed the same one. Collective over the world. Errors: kInvalid naming the ranks.
[[nodiscard]] Result<void> agree_on_group(World& world, std::span<const Rank> members);

/// Whether `ranks` rank threads have fewer cores than they need in this process's affinity.
[[nodiscard]] bool exceeds_cores(int ranks);

/// The processors that this thread may run on, as bits.
using CoreMask = std::array<std::uint64_t, 16>;
[[nodiscard]] CoreMask own_cores();

}  // namespace quadrille::internal
