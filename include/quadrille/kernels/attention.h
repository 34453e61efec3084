// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Causal multi-head attention that never stores T x T: softmax(Q K^T / sqrt(D)) V in tiles, keeping
// only each row's log-sum-exp for the backward pass. Source: Dao et al. 2022, "FlashAttention",
// algorithms 1 and 4; Rabe & Staats 2021.

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// Shapes: qkv [B, T, 3*A*D] (queries, then keys, then values, heads within each); out [B, T, A*D];
/// log_sum_exp [B, A, T].
struct AttentionForward {
  std::int64_t heads = 1;
  TensorView qkv;
  TensorView out;
  TensorView log_sum_exp;
};
void attention_forward(Stream& stream, const AttentionForward& arguments);

/// dqkv [B, T, 3*A*D] is overwritten. `delta` [B, A, T] is scratch: sum over D of dout * out.
struct AttentionBackward {
  std::int64_t heads = 1;
  TensorView qkv;
  TensorView out;
  TensorView log_sum_exp;
  TensorView dout;
  TensorView delta;
  TensorView dqkv;
};
void attention_backward(Stream& stream, const AttentionBackward& arguments);

/// New tokens against a cache: writes the new keys and values at positions [past, past + T) of the
/// caches and attends causally to all before. Shapes: qkv [B, T, 3*A*D]; key_cache, value_cache
/// [B, capacity, A*D]; out [B, T, A*D]. past + T must not exceed the capacity.
struct AttentionCached {
  std::int64_t heads = 1;
  std::int64_t past = 0;
  TensorView qkv;
  TensorView key_cache;
  TensorView value_cache;
  TensorView out;
};
void attention_cached(Stream& stream, const AttentionCached& arguments);

}  // namespace quadrille::kernels
