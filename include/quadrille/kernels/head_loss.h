// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The output head fused with cross-entropy, in chunks of rows: logits exist only for one chunk, and
// in a training step their gradient is used at once, so neither is ever stored whole.

#include "quadrille/device/device.h"
#include "quadrille/kernels/rounding.h"

namespace quadrille::kernels {

/// loss_sum += sum over rows of -log softmax(x W^T)[target]; rows whose target is -1 do not count.
/// With gradients: dx = dloss_sum/dx is written and weight_gradient is added to or written (of the
/// *sum*: the runtime alone divides by the global token count).
/// Shapes: x, dx [N, H]; weight [V, H]; targets [N] int32; loss_sum [1] float64; workspace at least
/// [chunk, V] where chunk = head_loss_chunk(N, V).
struct HeadLoss {
  TensorView x;
  TensorView weight;
  TensorView targets;
  TensorView loss_sum;
  TensorView workspace;
  TensorView dx;               ///< Empty: loss only.
  TensorView weight_gradient;  ///< Empty: loss only.
  bool accumulate = true;      ///< Adds to what weight_gradient holds.
  Rounding rounding = {};      ///< Of x, weight and the logits' gradient, as factors;
                               ///< head_loss_rounding(N, V, H) elements.
  TensorView rounded_weight =
      {};  ///< What to_bf16() (projection.h) made of it; empty: it is rounded.
};
void head_loss(Stream& stream, const HeadLoss& arguments);

/// Rows of logits that are held at a time for N rows and V columns: all chunks but the last are of
/// this length, which is at most 256 or what 4 MiB hold, whichever is more.
[[nodiscard]] std::int64_t head_loss_chunk(std::int64_t rows, std::int64_t vocab);
/// Elements of rounding scratch for [N, H] times [V, H].
[[nodiscard]] std::int64_t head_loss_rounding(std::int64_t rows, std::int64_t vocab,
                                              std::int64_t width);

}  // namespace quadrille::kernels
