// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The second exchangeable part of a block: how the normed input becomes the F activated numbers
// that the MLP's output projection takes. GPT-2: gelu(fc(x)); Llama: silu(gate(x)) * up(x).

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/layer.h"

namespace quadrille::internal {

struct DecodeBuffers;

class Expansion {
 public:
  virtual ~Expansion() = default;
  /// expanded [B, T, E] of x [B, T, H]; E is the spec's expanded_columns().
  virtual void forward(const LayerContext& context, const TensorView& x,
                       const TensorView& expanded) const = 0;
  /// The same outside training.
  virtual void decode(const DecodeBuffers& buffers, const TensorView& x,
                      const TensorView& expanded) const = 0;
  /// activated [B, T, F].
  virtual void activate(Stream& stream, const TensorView& expanded,
                        const TensorView& activated) const = 0;
  /// The first B*T*F numbers of `gradient` [B, T, E] hold that of `activated`; it becomes that of
  /// `expanded`.
  virtual void activate_backward(Stream& stream, const TensorView& expanded,
                                 const TensorView& gradient) const = 0;
  /// Adds to the gradients of the parameters and reports them, in append_order's order.
  [[nodiscard]] virtual Result<void> add_gradients(LayerContext& context, const TensorView& x,
                                                   const TensorView& dexpanded) const = 0;
  /// dx, overwritten.
  virtual void input_gradient(const LayerContext& context, const TensorView& dexpanded,
                              const TensorView& dx) const = 0;
  virtual void append_order(std::vector<int>& order) const = 0;
};

/// That of the model's family, of the block that is layer `layer`.
[[nodiscard]] std::unique_ptr<Expansion> make_expansion(const ModelSpec& spec, std::int64_t layer,
                                                        std::span<const Parameter> parameters);

}  // namespace quadrille::internal
