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

std::string AxisPlacement::to_text() const {
  if (kind == PlacementKind::kReplicated) return "replicated";
  if (kind == PlacementKind::kPartial) return "partial";
  std::string text = "sharded(" + std::to_string(dimension);
  if (cut.parts != 1) text += ", " + std::to_string(cut.parts) + " parts";
  return text + ")";
}

std::string Placement::to_text() const {
  std::string text;
  for (const auto& [axis, name] : kAxisText.rows) {
    const AxisPlacement placement = on(axis);
    if (placement.kind == PlacementKind::kReplicated) continue;
    if (!text.empty()) text += ", ";
    text += name;
    text += ": " + placement.to_text();
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

namespace {

// Units of one stretch that shard `index` has.
Extent shard_of_units(std::int64_t units, std::int64_t groups, int index, int count) {
  if (groups == 0) return shard_extent(units, index, count);
  const std::int64_t each = units / groups;
  if (count <= groups) {
    const Extent whole = shard_extent(groups, index, count);
    return {whole.first * each, whole.length * each};
  }
  // More shards than groups: the shards are dealt to the groups.
  int group = 0;
  Extent shards = shard_extent(count, group, static_cast<int>(groups));
  while (index >= shards.first + shards.length) {
    shards = shard_extent(count, ++group, static_cast<int>(groups));
  }
  const Extent within =
      shard_extent(each, index - static_cast<int>(shards.first), static_cast<int>(shards.length));
  return {group * each + within.first, within.length};
}

}  // namespace

std::vector<Extent> shard_extents(std::int64_t extent, const Cut& cut, int index, int count) {
  QD_CHECK(cut.parts >= 1 && cut.unit >= 1);
  QD_CHECK(cut.groups >= 0);
  QD_CHECK(index >= 0 && index < count);
  QD_CHECK_MSG(extent % (cut.parts * cut.unit * std::max<std::int64_t>(cut.groups, 1)) == 0,
               "a dimension of " + std::to_string(extent) + " is not whole parts");
  const std::int64_t stretch = extent / cut.parts;
  const Extent units = shard_of_units(stretch / cut.unit, cut.groups, index, count);
  std::vector<Extent> extents;
  for (std::int64_t part = 0; part < cut.parts; ++part) {
    extents.push_back({part * stretch + units.first * cut.unit, units.length * cut.unit});
  }
  return extents;
}

}  // namespace quadrille
