// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/mesh/piece.h"

#include <gtest/gtest.h>

namespace quadrille {
namespace {

std::vector<std::int64_t> indices_of(const TensorPiece& piece) {
  std::vector<std::int64_t> indices;
  piece.for_each_run([&](std::int64_t in_whole, std::int64_t in_piece, std::int64_t length) {
    EXPECT_EQ(in_piece, static_cast<std::int64_t>(indices.size()));
    for (std::int64_t i = 0; i < length; ++i) indices.push_back(in_whole + i);
  });
  return indices;
}

/// Shards of every count cover the tensor once, with shapes that add up.
void expect_cover(const std::vector<std::int64_t>& shape, const AxisPlacement& placement) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  for (int count = 1; count <= 7; ++count) {
    std::vector<int> seen(static_cast<std::size_t>(elements));
    for (int index = 0; index < count; ++index) {
      const TensorPiece piece = TensorPiece::of(shape, placement, index, count);
      const std::vector<std::int64_t> indices = indices_of(piece);
      EXPECT_EQ(static_cast<std::int64_t>(indices.size()), piece.elements());
      for (const std::int64_t i : indices) ++seen[static_cast<std::size_t>(i)];
    }
    for (const int times : seen) EXPECT_EQ(times, 1);
  }
}

TEST(TensorPiece, PiecesCoverTheTensorOnceOnEveryDimension) {
  expect_cover({5, 6}, AxisPlacement::sharded(0));
  expect_cover({5, 6}, AxisPlacement::sharded(1));
  expect_cover({12, 3}, AxisPlacement::sharded(0, {.parts = 3}));
  expect_cover({2, 12}, AxisPlacement::sharded(1, {.parts = 3, .groups = 0, .unit = 2}));
  expect_cover({24, 2}, AxisPlacement::sharded(0, {.parts = 1, .groups = 3, .unit = 2}));
}

TEST(TensorPiece, APackedMatrixGivesEachRankItsHeadsOfEachPart) {
  // Queries, keys and values of 4 heads of one number each: rank 1 of 2 has heads 2 and 3.
  const std::vector<std::int64_t> shape{12, 1};
  const auto piece = TensorPiece::of(shape, AxisPlacement::sharded(0, {.parts = 3}), 1, 2);
  EXPECT_EQ(indices_of(piece), (std::vector<std::int64_t>{2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(piece.shape(), (std::vector<std::int64_t>{6, 1}));
}

TEST(TensorPiece, ColumnsAreOneBlockOfRuns) {
  const std::vector<std::int64_t> shape{1000, 8};
  const auto piece = TensorPiece::of(shape, AxisPlacement::sharded(1), 1, 4);
  EXPECT_EQ(piece.blocks(), (std::vector<RunBlock>{{2, 2, 8, 1000}}));
  EXPECT_FALSE(piece.is_contiguous());
}

TEST(TensorPiece, AnyPartOfAPieceIsThatPartOfItsElements) {
  const std::vector<std::int64_t> shape{4, 12};
  for (const AxisPlacement& placement :
       {AxisPlacement::sharded(1), AxisPlacement::sharded(0),
        AxisPlacement::sharded(1, {.parts = 3}), AxisPlacement::replicated()}) {
    const auto piece = TensorPiece::of(shape, placement, 1, 3);
    const std::vector<std::int64_t> all = indices_of(piece);
    for (std::size_t first = 0; first <= all.size(); ++first) {
      for (std::size_t count = 0; first + count <= all.size(); ++count) {
        const auto part =
            piece.part(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count));
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
        EXPECT_EQ(indices_of(part),
                  std::vector<std::int64_t>(begin, begin + static_cast<std::ptrdiff_t>(count)));
      }
    }
  }
}

TEST(ShardExtents, QueryHeadsStayWithTheirKeyHead) {
  // 6 query heads in 2 groups. Two shards: a group each. Three: no shard has heads of two groups.
  const Cut cut{.parts = 1, .groups = 2, .unit = 1};
  EXPECT_EQ(shard_extents(6, cut, 1, 2), (std::vector<Extent>{{3, 3}}));
  EXPECT_EQ(shard_extents(6, cut, 0, 3), (std::vector<Extent>{{0, 2}}));
  EXPECT_EQ(shard_extents(6, cut, 1, 3), (std::vector<Extent>{{2, 1}}));
  EXPECT_EQ(shard_extents(6, cut, 2, 3), (std::vector<Extent>{{3, 3}}));
}

TEST(ShardExtents, MoreGroupsThanShardsAreDealtWhole) {
  const Cut cut{.parts = 1, .groups = 5, .unit = 2};
  EXPECT_EQ(shard_extents(20, cut, 0, 2), (std::vector<Extent>{{0, 12}}));
  EXPECT_EQ(shard_extents(20, cut, 1, 2), (std::vector<Extent>{{12, 8}}));
}

TEST(ShardExtents, ADimensionOfBrokenUnitsIsOurMistake) {
  EXPECT_DEATH((void)shard_extents(7, {.parts = 1, .groups = 0, .unit = 2}, 0, 2), "whole parts");
}

}  // namespace
}  // namespace quadrille
