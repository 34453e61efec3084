// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/mesh/mesh.h"

#include <algorithm>
#include <string>

#include "quadrille/base/check.h"
#include "quadrille/base/units.h"

namespace quadrille {
namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;

}  // namespace

Result<Mesh> Mesh::create(MeshDegrees degrees) {
  const std::array<int, kAxisCount> by_axis{degrees.pipeline, degrees.data, degrees.context,
                                            degrees.tensor};
  std::int64_t ranks = 1;
  for (const auto& [axis, name] : kAxisText.rows) {
    const int degree = by_axis[static_cast<std::size_t>(axis)];
    if (degree < 1) {
      return fail(Code::kInvalid, "the " + std::string(name) + " degree is " +
                                      std::to_string(degree) + "; expected at least 1");
    }
    // At most 2^20 * 2^31 before the test, so the product cannot overflow.
    ranks *= degree;
    if (ranks > kMostRanks) return fail(Code::kInvalid, "the mesh has more than 2^20 ranks");
  }
  return Mesh(by_axis);
}

int Mesh::ranks() const {
  int product = 1;
  for (const int degree : degrees_) product *= degree;
  return product;
}

Coordinates Mesh::coordinates(Rank rank) const {
  QD_CHECK(rank.value >= 0 && rank.value < ranks());
  Coordinates coordinates{};
  int rest = rank.value;
  for (std::size_t axis = kAxisCount; axis-- > 0;) {
    coordinates[axis] = rest % degrees_[axis];
    rest /= degrees_[axis];
  }
  return coordinates;
}

Rank Mesh::rank_at(const Coordinates& coordinates) const {
  int rank = 0;
  for (std::size_t axis = 0; axis < kAxisCount; ++axis) {
    QD_CHECK(coordinates[axis] >= 0 && coordinates[axis] < degrees_[axis]);
    rank = rank * degrees_[axis] + coordinates[axis];
  }
  return Rank{rank};
}

std::vector<Rank> Mesh::group(Rank rank, std::span<const Axis> axes) const {
  std::vector<Coordinates> points{coordinates(rank)};
  for (const auto& [axis, name] : kAxisText.rows) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) continue;
    const auto index = static_cast<std::size_t>(axis);
    std::vector<Coordinates> spread;
    spread.reserve(points.size() * static_cast<std::size_t>(degrees_[index]));
    for (Coordinates point : points) {
      for (point[index] = 0; point[index] < degrees_[index]; ++point[index])
        spread.push_back(point);
    }
    points = std::move(spread);
  }
  // Spread from the outermost axis inwards, the points are in the order of their ranks.
  std::vector<Rank> members;
  members.reserve(points.size());
  for (const Coordinates& point : points) members.push_back(rank_at(point));
  return members;
}

}  // namespace quadrille
