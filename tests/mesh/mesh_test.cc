// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace quadrille {
namespace {

using ::testing::HasSubstr;

std::vector<Rank> ranks_of(std::initializer_list<int> values) {
  std::vector<Rank> ranks;
  for (const int value : values) ranks.push_back(Rank{value});
  return ranks;
}

TEST(Mesh, TensorNeighboursHaveNeighbouringRanks) {
  const Mesh mesh = Mesh::create({.pipeline = 2, .data = 3, .context = 1, .tensor = 4}).value();
  EXPECT_EQ(mesh.ranks(), 24);
  EXPECT_EQ(mesh.coordinates(Rank{0}), (Coordinates{0, 0, 0, 0}));
  EXPECT_EQ(mesh.coordinates(Rank{1}), (Coordinates{0, 0, 0, 1}));
  EXPECT_EQ(mesh.coordinates(Rank{4}), (Coordinates{0, 1, 0, 0}));
  EXPECT_EQ(mesh.coordinates(Rank{12}), (Coordinates{1, 0, 0, 0}));
  const Axis tensor[] = {Axis::kTensor};
  EXPECT_EQ(mesh.group(Rank{6}, tensor), ranks_of({4, 5, 6, 7}));
  const Axis data[] = {Axis::kData};
  EXPECT_EQ(mesh.group(Rank{6}, data), ranks_of({2, 6, 10}));
  const Axis both[] = {Axis::kTensor, Axis::kPipeline};
  EXPECT_EQ(mesh.group(Rank{0}, both), ranks_of({0, 1, 2, 3, 12, 13, 14, 15}));
}

TEST(Mesh, RefusesDegreesThatAreNoMesh) {
  const auto none = Mesh::create({.pipeline = 1, .data = 0});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::kInvalid);
  EXPECT_THAT(none.error().message, HasSubstr("data degree is 0"));
  EXPECT_FALSE(Mesh::create({.tensor = -1}).has_value());
  EXPECT_TRUE(Mesh::create({.data = 1 << 20}).has_value());
  EXPECT_FALSE(Mesh::create({.data = 1 << 20, .tensor = 2}).has_value());
  const int most = 2147483647;
  EXPECT_FALSE(Mesh::create({most, most, most, most}).has_value());
}

TEST(Mesh, ARankBeyondItIsOurMistake) {
  const Mesh mesh = Mesh::create({.data = 6}).value();
  EXPECT_DEATH((void)mesh.coordinates(Rank{6}), "ranks\\(\\)");
  EXPECT_DEATH((void)mesh.rank_at({0, 0, 0, 1}), "coordinates\\[axis\\]");
}

/// Properties that hold for degrees of any kind, powers of two or not.
class MeshOf : public ::testing::TestWithParam<std::tuple<int, int, int, int>> {
 protected:
  [[nodiscard]] static Mesh mesh() {
    const auto [pipeline, data, context, tensor] = GetParam();
    return Mesh::create({pipeline, data, context, tensor}).value();
  }
  /// All subsets of the axes.
  [[nodiscard]] static std::vector<std::vector<Axis>> axis_sets() {
    std::vector<std::vector<Axis>> sets;
    for (unsigned bits = 0; bits < 16; ++bits) {
      std::vector<Axis> set;
      for (const auto& [axis, name] : kAxisText.rows) {
        if ((bits >> static_cast<unsigned>(axis) & 1u) != 0) set.push_back(axis);
      }
      sets.push_back(set);
    }
    return sets;
  }
};

TEST_P(MeshOf, RanksAndCoordinatesAreOneToOne) {
  const Mesh whole = mesh();
  std::set<Coordinates> seen;
  for (int rank = 0; rank < whole.ranks(); ++rank) {
    const Coordinates point = whole.coordinates(Rank{rank});
    EXPECT_EQ(whole.rank_at(point), Rank{rank});
    EXPECT_TRUE(seen.insert(point).second);
  }
  EXPECT_EQ(static_cast<int>(seen.size()), whole.ranks());
}

TEST_P(MeshOf, GroupsOfAnyAxesPartTheRanks) {
  const Mesh whole = mesh();
  for (const std::vector<Axis>& axes : axis_sets()) {
    std::size_t size = 1;
    for (const Axis axis : axes) size *= static_cast<std::size_t>(whole.degree(axis));
    for (int rank = 0; rank < whole.ranks(); ++rank) {
      const auto members = whole.group(Rank{rank}, axes);
      ASSERT_EQ(members.size(), size);
      EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
      EXPECT_TRUE(std::binary_search(members.begin(), members.end(), Rank{rank}));
      // A group is the same seen from each of its members, so groups cannot overlap in part.
      for (const Rank member : members) EXPECT_EQ(whole.group(member, axes), members);
    }
  }
}

TEST_P(MeshOf, MembersDifferOnTheGroupsAxesAlone) {
  const Mesh whole = mesh();
  for (const std::vector<Axis>& axes : axis_sets()) {
    const Rank last{whole.ranks() - 1};
    const Coordinates mine = whole.coordinates(last);
    for (const Rank member : whole.group(last, axes)) {
      const Coordinates theirs = whole.coordinates(member);
      for (const auto& [axis, name] : kAxisText.rows) {
        const auto index = static_cast<std::size_t>(axis);
        const bool grouped = std::find(axes.begin(), axes.end(), axis) != axes.end();
        EXPECT_TRUE(grouped || theirs[index] == mine[index]) << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, MeshOf,
                         ::testing::Values(std::tuple(1, 1, 1, 1), std::tuple(1, 6, 1, 1),
                                           std::tuple(3, 1, 1, 2), std::tuple(2, 3, 1, 3),
                                           std::tuple(1, 5, 3, 2), std::tuple(3, 2, 2, 3),
                                           std::tuple(1, 1, 7, 1)));

}  // namespace
}  // namespace quadrille
