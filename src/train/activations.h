// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arena that a rank's activations live in, and the views the model asks for by layer and name.

#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/memory/pool.h"
#include "quadrille/plan/activation_arena.h"

namespace quadrille::internal {

struct NamedActivation {
  std::string name;
  TensorView view;
  ActivationLife life = ActivationLife::kSaved;
};

class Activations {
 public:
  Activations() = default;
  /// Every view lies inside `lease`, which holds the arena, at the offset that its life allows.
  Activations(const ActivationArena& arena, Lease lease);

  /// QD_CHECKs that the layer has such an activation.
  [[nodiscard]] TensorView view(std::int64_t layer, std::string_view name) const;
  [[nodiscard]] const std::vector<NamedActivation>& of_layer(std::int64_t layer) const {
    return by_layer_[static_cast<std::size_t>(layer)];
  }

 private:
  Lease lease_;
  std::vector<std::vector<NamedActivation>> by_layer_;
};

}  // namespace quadrille::internal
