// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/mesh/flat_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace quadrille {
namespace {

std::vector<FlatTensor> random_tensors(std::mt19937& random) {
  std::vector<FlatTensor> tensors;
  const int count = std::uniform_int_distribution<int>(1, 20)(random);
  for (int i = 0; i < count; ++i) {
    tensors.push_back(
        {.elements = std::uniform_int_distribution<std::int64_t>(1, 300)(random),
         .layer = (count - i) / 4,
         .contributions = std::uniform_int_distribution<int>(0, 5)(random) == 0 ? 2 : 1});
  }
  return tensors;
}

TEST(FlatLayout, SlicesOfAllRanksCoverEveryTensorOnce) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const auto tensors = random_tensors(random);
    const FlatLayout layout(tensors, {Bytes(64 << (trial % 6)), trial % 4});
    const int ranks = 1 + trial % 7;
    std::vector<std::vector<int>> covered;
    for (const FlatTensor& tensor : tensors) {
      covered.emplace_back(static_cast<std::size_t>(tensor.elements), 0);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      for (const FlatPiece& piece : layout.pieces(rank, ranks)) {
        const FlatPlace& place = layout.places()[static_cast<std::size_t>(piece.tensor)];
        const Extent slice = layout.slice(piece.bucket, rank, ranks);
        EXPECT_EQ(piece.bucket, place.bucket);
        EXPECT_EQ(piece.first, place.first + piece.of_tensor.first);
        EXPECT_GE(piece.first, slice.first);
        EXPECT_LE(piece.first + piece.of_tensor.length, slice.first + slice.length);
        auto& elements = covered[static_cast<std::size_t>(piece.tensor)];
        for (std::int64_t e = 0; e < piece.of_tensor.length; ++e) {
          ++elements.at(static_cast<std::size_t>(piece.of_tensor.first + e));
        }
      }
    }
    for (const auto& elements : covered) {
      EXPECT_TRUE(std::all_of(elements.begin(), elements.end(), [](int n) { return n == 1; }));
    }
  }
}

TEST(FlatLayout, BucketsFollowEachOtherAndExceedTheirSizeOnlyForOneTensor) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 40; ++trial) {
    const auto tensors = random_tensors(random);
    const FlatLayout layout(tensors, {Bytes(1024), 0});
    std::vector<int> members(layout.buckets().size(), 0);
    for (const FlatPlace& place : layout.places()) {
      ++members[static_cast<std::size_t>(place.bucket)];
      EXPECT_EQ(place.first % FlatLayout::kAligned, 0);
    }
    std::int64_t next = 0;
    for (std::size_t b = 0; b < members.size(); ++b) {
      EXPECT_EQ(layout.buckets()[b].first, next);
      EXPECT_TRUE(layout.buckets()[b].length * 4 <= 1024 || members[b] == 1);
      next += layout.buckets()[b].length;
    }
    EXPECT_EQ(layout.elements(), next);
  }
}

TEST(FlatLayout, LaterStagesSeparateWhatStaysAndWhatIsGathered) {
  const std::vector<FlatTensor> tensors = {
      {10, 2, 1}, {10, 2, 1}, {10, 1, 1}, {10, 0, 2}, {10, 0, 1}};
  const auto buckets_of = [&](int sharding) {
    std::vector<int> buckets;
    const FlatLayout layout(tensors, {1_MiB, sharding});
    for (const FlatPlace& place : layout.places()) buckets.push_back(place.bucket);
    return buckets;
  };
  EXPECT_EQ(buckets_of(0), (std::vector<int>{0, 0, 0, 0, 0}));
  EXPECT_EQ(buckets_of(1), buckets_of(0));
  EXPECT_EQ(buckets_of(2), (std::vector<int>{0, 0, 0, 1, 2}));
  EXPECT_EQ(buckets_of(3), (std::vector<int>{0, 0, 1, 2, 3}));
}

TEST(FlatLayout, ATensorSmallerThanTheGroupLeavesSomeRanksWithoutAPiece) {
  const std::vector<FlatTensor> tensors = {{.elements = 3}};
  const FlatLayout layout(tensors, {1_MiB, 1});
  int with = 0;
  for (int rank = 0; rank < 20; ++rank) with += layout.pieces(rank, 20).empty() ? 0 : 1;
  EXPECT_EQ(with, 3);  // 16 elements with the padding: ranks 0 to 2 have one of the tensor's each
}

}  // namespace
}  // namespace quadrille
