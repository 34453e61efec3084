// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/mesh/placement.h"

#include <gtest/gtest.h>

namespace quadrille {
namespace {

TEST(Placement, IsReplicatedWhereNothingElseIsSaid) {
  const Placement placement;
  for (const auto& [axis, name] : kAxisText.rows)
    EXPECT_EQ(placement.on(axis), AxisPlacement::replicated());
  EXPECT_EQ(placement.to_text(), "replicated");
}

TEST(Placement, SaysItsAxesFromTheOutermost) {
  const Placement placement = Placement()
                                  .with(Axis::kTensor, AxisPlacement::sharded(0))
                                  .with(Axis::kData, AxisPlacement::partial());
  EXPECT_EQ(placement.to_text(), "data: partial, tensor: sharded(0)");
}

TEST(Placement, WithChangesACopyOnOneAxis) {
  const Placement before;
  const Placement after = before.with(Axis::kContext, AxisPlacement::sharded(1));
  EXPECT_NE(before, after);
  EXPECT_EQ(after.on(Axis::kContext).dimension, 1);
  EXPECT_EQ(after.on(Axis::kTensor), AxisPlacement::replicated());
  EXPECT_EQ(after.with(Axis::kContext, AxisPlacement::replicated()), before);
}

TEST(Placement, ASplitNeedsItsDimension) {
  EXPECT_DEATH((void)Placement().with(Axis::kData, AxisPlacement::sharded(-1)), "dimension");
}

TEST(ShardExtent, ShardsCoverTheExtentInOrderAndEvenly) {
  for (std::int64_t extent = 0; extent <= 40; ++extent) {
    for (int count = 1; count <= 13; ++count) {
      std::int64_t next = 0;
      std::int64_t former = extent;
      for (int index = 0; index < count; ++index) {
        const Extent shard = shard_extent(extent, index, count);
        EXPECT_EQ(shard.first, next);
        EXPECT_LE(shard.length, former) << "the remainder goes to the first shards";
        EXPECT_GE(shard.length, extent / count);
        EXPECT_LE(shard.length, extent / count + 1);
        next = shard.first + shard.length;
        former = shard.length;
      }
      EXPECT_EQ(next, extent);
    }
  }
}

TEST(ShardExtent, HoldsBeyondThirtyTwoBits) {
  const std::int64_t extent = (std::int64_t{1} << 60) + 2;
  const Extent last = shard_extent(extent, 6, 7);
  EXPECT_EQ(last.first + last.length, extent);
}

TEST(ShardExtent, AnIndexBeyondTheCountIsOurMistake) {
  EXPECT_DEATH((void)shard_extent(8, 2, 2), "index < count");
  EXPECT_DEATH((void)shard_extent(-1, 0, 2), "extent >= 0");
}

}  // namespace
}  // namespace quadrille
