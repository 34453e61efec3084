// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The last layer: final norm, output head and loss. The head and the cross-entropy are one
// operation that never holds all logits; in training it has the loss's gradient at hand and uses it
// at once, so the head's weight gradient and that of its input are made in the forward pass.

#include <cstdint>
#include <span>
#include <vector>

#include "model/layer.h"
#include "model/norm.h"

namespace quadrille::internal {

struct DecodeBuffers;

class HeadLayer final : public Layer {
 public:
  HeadLayer(const ModelSpec& spec, std::span<const Parameter> parameters);
  [[nodiscard]] Result<void> forward(LayerContext& context) const override;
  [[nodiscard]] Result<void> backward(LayerContext& context) const override;
  [[nodiscard]] std::vector<int> backward_order() const override;
  /// Logits [n, V] of the last n rows of buffers.x; overwrites buffers.branch.
  void decode(const DecodeBuffers& buffers, const TensorView& logits) const;

 private:
  [[nodiscard]] Norm::Statistics statistics(const LayerContext& context) const;

  std::int64_t layer_;
  bool tied_;
  std::int64_t vocab_;  ///< Of the whole.
  Norm norm_;
  ParameterRef weight_;
};

}  // namespace quadrille::internal
