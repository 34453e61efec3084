// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One place in the network that drops elements. Which ones is a function of (seed, place, step,
// element's place in the global batch [B_global, T, H]), so it is the same for any split of the
// batch over micro-batches and ranks. Ranks that share rows have their own rows of x.

#include <cstdint>
#include <string_view>

#include "model/layer.h"

namespace quadrille::internal {

class DropoutSite {
 public:
  /// `name` is stable for ever: it keys the masks.
  DropoutSite(const ModelSpec& spec, std::string_view name);

  /// Whether anything is dropped in this pass.
  [[nodiscard]] bool active(const LayerContext& context) const;
  /// x = dropout(x), for x [.., H].
  void apply(const LayerContext& context, const TensorView& x) const;
  /// sum = residual + dropout(x), all [.., H].
  void add(const LayerContext& context, const TensorView& x, const TensorView& residual,
           const TensorView& sum) const;
  /// Gradient of dropout's input: `dy` itself where nothing is dropped, else written to `scratch`.
  [[nodiscard]] TensorView backward(const LayerContext& context, const TensorView& dy,
                                    const TensorView& scratch) const;

 private:
  std::uint64_t id_;
  float probability_;
  std::int64_t width_;  ///< H
};

}  // namespace quadrille::internal
