// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The first half of a transformer block: middle = x + dropout(proj(attention(qkv(norm(x))))).

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/attention_projections.h"
#include "model/decode_buffers.h"
#include "model/dropout_site.h"
#include "model/linear.h"
#include "model/norm.h"

namespace quadrille::internal {

class AttentionBlock {
 public:
  /// `layer` is the transformer's layer number, 1 for the first block.
  AttentionBlock(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters);

  /// Writes the activation `middle` from the layer's input.
  [[nodiscard]] Result<void> forward(LayerContext& context, const TensorView& x) const;
  /// From the gradient of `middle` to the activation `gradient`, that of the layer's input.
  [[nodiscard]] Result<void> backward(LayerContext& context, const TensorView& x,
                                      const TensorView& dmiddle) const;
  /// x += the branch, attending to the cache, which takes the new keys and values.
  void decode(const DecodeBuffers& buffers) const;
  void append_order(std::vector<int>& order) const;

 private:
  [[nodiscard]] Norm::Statistics statistics(const LayerContext& context) const {
    return norm_.statistics(context, layer_, "attention_norm");
  }
  [[nodiscard]] Result<void> norm_backward(LayerContext& context, const TensorView& x,
                                           const TensorView& dmiddle) const;

  std::int64_t layer_;
  std::int64_t hidden_;
  Norm norm_;
  std::unique_ptr<AttentionProjections> qkv_;
  Linear projection_;
  DropoutSite dropout_;
};

}  // namespace quadrille::internal
