// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Layer 0: token embedding, plus that of the position where the model has one, then dropout.

#include <span>
#include <vector>

#include "model/dropout_site.h"
#include "model/layer.h"

namespace quadrille::internal {

class EmbeddingLayer final : public Layer {
 public:
  EmbeddingLayer(const ModelSpec& spec, std::span<const Parameter> parameters);
  [[nodiscard]] Result<void> forward(LayerContext& context) const override;
  [[nodiscard]] Result<void> backward(LayerContext& context) const override;
  [[nodiscard]] std::vector<int> backward_order() const override;
  /// out [B, n, H] of tokens [B, n] that stand at positions first_position and after.
  void decode(Stream& stream, const TensorView& tokens, std::int64_t first_position,
              const TensorView& out) const;

 private:
  [[nodiscard]] std::int64_t first_id(const TensorGroup& group) const;

  ParameterRef tokens_;
  ParameterRef positions_;  ///< None with rotary positions.
  DropoutSite dropout_;
  std::int64_t hidden_;
  std::int64_t vocab_;  ///< Of the whole.
};

}  // namespace quadrille::internal
