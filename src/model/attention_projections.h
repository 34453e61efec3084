// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The first exchangeable part of a block: how the normed input becomes queries, keys and values
// with their positions in them. GPT-2 has one matrix for the three, and its positions are in the
// embedding already; Llama has one matrix each, and turns queries and keys by their positions.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/layer.h"
#include "quadrille/kernels/attention.h"

namespace quadrille::internal {

struct DecodeBuffers;

class AttentionProjections {
 public:
  virtual ~AttentionProjections() = default;
  /// How queries, keys and values (or their gradients) stand in a tensor [B, T, (A + 2K) * D].
  [[nodiscard]] virtual kernels::AttentionInput arrange(const TensorView& qkv) const = 0;
  /// qkv of x [B, T, H] at positions from 0.
  virtual void forward(const LayerContext& context, const TensorView& x,
                       const TensorView& qkv) const = 0;
  /// The same outside training, of buffers.branch into buffers.qkv, at positions after the past of
  /// each sequence.
  virtual void decode(const DecodeBuffers& buffers) const = 0;
  /// Turns the gradient of what the attention saw into that of the products, in place.
  virtual void backward_positions(Stream& stream, const TensorView& dqkv) const = 0;
  /// Adds to the gradients of the parameters and reports them, in append_order's order.
  [[nodiscard]] virtual Result<void> add_gradients(LayerContext& context, const TensorView& x,
                                                   const TensorView& dqkv) const = 0;
  /// dx, overwritten.
  virtual void input_gradient(const LayerContext& context, const TensorView& dqkv,
                              const TensorView& dx) const = 0;
  virtual void append_order(std::vector<int>& order) const = 0;
};

/// Those of the model's family, of the block that is layer `layer`.
[[nodiscard]] std::unique_ptr<AttentionProjections> make_attention_projections(
    const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters);

}  // namespace quadrille::internal
