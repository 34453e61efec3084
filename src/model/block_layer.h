// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One transformer block with norms before its two branches. What the families do differently is in
// exchangeable parts: Norm, AttentionProjections and Expansion. Source: Radford et al. 2019,
// "Language models are unsupervised multitask learners", section 2.3; Touvron et al. 2023, "LLaMA",
// section 2.2.

#include <cstdint>
#include <span>
#include <vector>

#include "model/attention_block.h"
#include "model/layer.h"
#include "model/mlp_block.h"

namespace quadrille::internal {

class BlockLayer final : public Layer {
 public:
  BlockLayer(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters);
  [[nodiscard]] Result<void> forward(LayerContext& context) const override;
  [[nodiscard]] Result<void> backward(LayerContext& context) const override;
  [[nodiscard]] std::vector<int> backward_order() const override;
  /// buffers.x becomes the block's output.
  void decode(const DecodeBuffers& buffers) const;

 private:
  std::int64_t layer_;
  AttentionBlock attention_;
  MlpBlock mlp_;
};

}  // namespace quadrille::internal
