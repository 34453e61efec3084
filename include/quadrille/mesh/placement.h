// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a tensor lives on each mesh axis: a whole copy, one slice of a dimension, or a sum still
// owed. Reductions, clipping, tied weights, checkpoints and resharding derive from this and nothing
// else.

#include <array>
#include <cstdint>
#include <string>

#include "quadrille/mesh/mesh.h"

namespace quadrille {

enum class PlacementKind : std::uint8_t { kReplicated, kSharded, kPartial };

struct AxisPlacement {
  PlacementKind kind = PlacementKind::kReplicated;
  int dimension = -1;  ///< The sharded dimension; -1 for the other kinds.

  [[nodiscard]] static constexpr AxisPlacement replicated() { return {}; }
  [[nodiscard]] static constexpr AxisPlacement sharded(int dimension) {
    return {PlacementKind::kSharded, dimension};
  }
  [[nodiscard]] static constexpr AxisPlacement partial() { return {PlacementKind::kPartial, -1}; }
  friend constexpr bool operator==(AxisPlacement, AxisPlacement) = default;
};

/// One AxisPlacement per axis; replicated everywhere unless said otherwise.
class Placement {
 public:
  [[nodiscard]] AxisPlacement on(Axis axis) const { return axes_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] Placement with(Axis axis, AxisPlacement placement) const;
  /// "replicated", "data: partial, tensor: sharded(0)".
  [[nodiscard]] std::string to_text() const;
  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  std::array<AxisPlacement, kAxisCount> axes_{};
};

/// A contiguous part of a dimension: shard `index` of `count` over `extent` elements. The remainder
/// goes to the first shards, one element each, so every extent divides; shards may be empty.
struct Extent {
  std::int64_t first = 0;
  std::int64_t length = 0;
  friend constexpr bool operator==(Extent, Extent) = default;
};
[[nodiscard]] Extent shard_extent(std::int64_t extent, int index, int count);

}  // namespace quadrille
