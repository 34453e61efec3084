// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a tensor lives on each mesh axis: a whole copy, one slice of a dimension, or a sum still
// owed. Reductions, clipping, tied weights, checkpoints and resharding derive from this and nothing
// else.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quadrille/mesh/mesh.h"

namespace quadrille {

enum class PlacementKind : std::uint8_t { kReplicated, kSharded, kPartial };

/// How a dimension is cut into shards. It consists of `parts` equal stretches, each cut alike (3
/// where queries, keys and values are packed into one matrix). A stretch consists of whole units (a
/// head) in equal groups (the query heads of one key and value head): shards get whole groups while
/// there are enough, else each shard's units are of one group.
struct Cut {
  std::int64_t parts = 1;
  std::int64_t groups = 0;  ///< Of a stretch; 0: each unit is one.
  std::int64_t unit = 1;    ///< Elements.
  friend constexpr bool operator==(Cut, Cut) = default;
};

struct AxisPlacement {
  PlacementKind kind = PlacementKind::kReplicated;
  int dimension = -1;  ///< The sharded dimension; -1 for the other kinds.
  Cut cut;             ///< Of that dimension.

  [[nodiscard]] static constexpr AxisPlacement replicated() { return {}; }
  [[nodiscard]] static constexpr AxisPlacement sharded(int dimension, Cut cut = {}) {
    return {PlacementKind::kSharded, dimension, cut};
  }
  [[nodiscard]] static constexpr AxisPlacement partial() {
    return {PlacementKind::kPartial, -1, {}};
  }
  [[nodiscard]] constexpr bool is_sharded() const { return kind == PlacementKind::kSharded; }
  [[nodiscard]] constexpr bool is_partial() const { return kind == PlacementKind::kPartial; }
  /// "replicated", "partial", "sharded(0)", "sharded(0, 3 parts)".
  [[nodiscard]] std::string to_text() const;
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

/// What shard `index` of `count` has of a dimension of `extent` that is cut so: one Extent for each
/// part. QD_CHECKs that the extent is whole parts of whole groups of whole units.
[[nodiscard]] std::vector<Extent> shard_extents(std::int64_t extent, const Cut& cut, int index,
                                                int count);

}  // namespace quadrille
