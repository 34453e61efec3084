// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which parameters a rank has whole at hand. Up to sharding stage 2 all of them, always. In stage 3
// a rank keeps its slices and gathers a layer's parameters just ahead of its use, into memory for
// two neighbouring layers: what forward used last, backward finds still there. A parameter that is
// not at hand has no view, so using it is an error and not an old value.

#include <array>
#include <functional>
#include <vector>

#include "quadrille/mesh/flat_layout.h"
#include "train/rank_base.h"

namespace quadrille::internal {

struct ResidencyOptions {
  std::vector<std::vector<int>> tensors_of_layer;  ///< Indices into the base's tensors.
  std::function<void(int tensor, const TensorView& value)> bind;  ///< Where a value is now.
};

class ParameterResidency {
 public:
  /// Everything is at hand.
  ParameterResidency() = default;
  /// Leases the memory to gather into. Collective. `base` outlives this.
  [[nodiscard]] static Result<ParameterResidency> create(RankBase& base, ResidencyOptions options);

  /// The layer's values are at hand until release(). Collective.
  [[nodiscard]] Result<void> acquire(std::int64_t layer);
  void release(std::int64_t layer);
  /// The slices have changed: what was gathered is old.
  void forget();

  /// Calls `body` as often as it takes for every parameter to have had a view to be filled with its
  /// first value, and keeps this rank's slices. No communication.
  void fill(const std::function<void()>& body);

 private:
  [[nodiscard]] bool gathers() const { return base_ != nullptr; }
  void open(std::int64_t layer);
  void close(std::size_t slot);
  /// Calls body(bucket, its memory, the slice of it that is this rank's).
  template <class Body>
  [[nodiscard]] Result<void> for_each_bucket(std::int64_t layer, const Body& body) const;

  RankBase* base_ = nullptr;
  ResidencyOptions options_;
  LayerArena arena_;
  Lease lease_;
  std::array<std::int64_t, 2> resident_{-1, -1};  ///< Layer in the memory of even and of odd ones.
  std::array<bool, 2> in_use_{};
};

}  // namespace quadrille::internal
