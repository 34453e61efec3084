// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The second half of a transformer block: output = middle +
// dropout(proj(activated(expand(norm(middle))))).

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/decode_buffers.h"
#include "model/dropout_site.h"
#include "model/expansion.h"
#include "model/linear.h"
#include "model/norm.h"

namespace quadrille::internal {

class MlpBlock {
 public:
  /// `layer` is the transformer's layer number, 1 for the first block.
  MlpBlock(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters);

  /// Writes the activation `output` from `middle`.
  [[nodiscard]] Result<void> forward(LayerContext& context) const;
  /// `gradient` holds that of the output and becomes that of `middle`, in place.
  [[nodiscard]] Result<void> backward(LayerContext& context, const TensorView& gradient) const;
  /// x += the branch.
  void decode(const DecodeBuffers& buffers) const;
  void append_order(std::vector<int>& order) const;

 private:
  [[nodiscard]] Norm::Statistics statistics(const LayerContext& context) const {
    return norm_.statistics(context, layer_, "mlp_norm");
  }

  std::int64_t layer_;
  std::int64_t hidden_;
  Norm norm_;
  std::unique_ptr<Expansion> expansion_;
  Linear projection_;
  DropoutSite dropout_;
};

}  // namespace quadrille::internal
