// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/mesh/placement.h"

#include <algorithm>

#include "quadrille/base/check.h"

namespace quadrille {

Placement Placement::with(Axis axis, AxisPlacement placement) const {
  QD_CHECK((placement.kind == PlacementKind::kSharded) == (placement.dimension >= 0));
  Placement changed = *this;
  changed.axes_[static_cast<std::size_t>(axis)] = placement;
  return changed;
}

std::string Placement::to_text() const {
  std::string text;
  for (const auto& [axis, name] : kAxisText.rows) {
    const AxisPlacement placement = on(axis);
    if (placement.kind == PlacementKind::kReplicated) continue;
    if (!text.empty()) text += ", ";
    text += name;
    text += placement.kind == PlacementKind::kPartial
                ? ": partial"
                : ": sharded(" + std::to_string(placement.dimension) + ")";
  }
  return text.empty() ? "replicated" : text;
}

Extent shard_extent(std::int64_t extent, int index, int count) {
  QD_CHECK(extent >= 0);
  QD_CHECK(index >= 0 && index < count);
  const std::int64_t each = extent / count;
  const std::int64_t more = extent % count;
  return {index * each + std::min<std::int64_t>(index, more), each + (index < more ? 1 : 0)};
}

}  // namespace quadrille
