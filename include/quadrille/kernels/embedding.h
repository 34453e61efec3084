// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Token and position embeddings. A model whose positions are elsewhere (rotary) leaves the position
// table empty.

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// out[b, t] = token_table[tokens[b, t]] [+ position_table[first_position + t]].
/// Shapes: tokens [B, T] int32, token_table [V, H], position_table [context, H] or empty, out [B,
/// T, H]. Every id must be in [0, V): data checks it at open and per batch. A table of a part of
/// the vocabulary (ids first_id ... first_id + V - 1 of `vocab`) adds nothing for other parts' ids.
struct EmbeddingForward {
  TensorView tokens;
  TensorView token_table;
  TensorView position_table;
  std::int64_t first_position = 0;
  TensorView out;
  std::int64_t first_id = 0;
  std::int64_t vocab = 0;  ///< Of all parts; 0: the table is whole.
};
void embedding_forward(Stream& stream, const EmbeddingForward& arguments);

/// Adds dout to the rows of both gradients (the positions' may be empty), in token order (the same
/// sums whatever the threads).
struct EmbeddingBackward {
  TensorView tokens;
  TensorView dout;
  TensorView token_gradient;
  TensorView position_gradient;
  std::int64_t first_id = 0;  ///< As in forward.
  std::int64_t vocab = 0;
};
void embedding_backward(Stream& stream, const EmbeddingBackward& arguments);

}  // namespace quadrille::kernels
