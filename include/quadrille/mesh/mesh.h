// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks as points of a grid. Axes from the outermost: pipeline, data, context, tensor; tensor is
// innermost so that the chattiest group has neighbouring ranks. Degrees are any positive numbers.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"

namespace quadrille {

enum class Axis : std::uint8_t { kPipeline, kData, kContext, kTensor };
inline constexpr std::size_t kAxisCount = 4;
inline constexpr EnumTable<Axis, kAxisCount> kAxisText{{{{Axis::kPipeline, "pipeline"},
                                                         {Axis::kData, "data"},
                                                         {Axis::kContext, "context"},
                                                         {Axis::kTensor, "tensor"}}}};

struct MeshDegrees {
  int pipeline = 1;
  int data = 1;
  int context = 1;
  int tensor = 1;
};

/// A rank's place on each axis, indexed by Axis.
using Coordinates = std::array<int, kAxisCount>;

class Mesh {
 public:
  /// Errors: kInvalid when a degree is below 1 or the product exceeds 2^20 ranks.
  [[nodiscard]] static Result<Mesh> create(MeshDegrees degrees);

  [[nodiscard]] int ranks() const;
  [[nodiscard]] int degree(Axis axis) const { return degrees_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] Coordinates coordinates(Rank rank) const;
  [[nodiscard]] Rank rank_at(const Coordinates& coordinates) const;

  /// The ranks that differ from `rank` only on `axes`, ascending, itself among them.
  [[nodiscard]] std::vector<Rank> group(Rank rank, std::span<const Axis> axes) const;

 private:
  explicit Mesh(std::array<int, kAxisCount> degrees) : degrees_(degrees) {}
  std::array<int, kAxisCount> degrees_;
};

}  // namespace quadrille
