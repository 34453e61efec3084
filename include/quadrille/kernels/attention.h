// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Causal multi-head attention that never stores T x T: softmax(Q K^T / sqrt(D)) V in tiles, keeping
// only each row's log-sum-exp for the backward pass. Several heads of queries may share one of keys
// and values: A query heads and K key-value heads, A a multiple of K; query head a uses key-value
// head a / (A / K). Source: Dao et al. 2022, "FlashAttention", algorithms 1 and 4; Rabe & Staats
// 2021; Ainslie et al. 2023, "GQA".

#include <cstdint>
#include <vector>

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// Heads side by side from column `first` on, of a tensor [B, T, columns] that may hold more.
struct HeadColumns {
  TensorView tensor;
  std::int64_t first = 0;
};

/// Queries [.., A*D], keys and values [.., K*D], or their gradients. The tensors of keys and values
/// have equally many columns.
struct AttentionInput {
  std::int64_t heads = 1;     ///< A
  std::int64_t kv_heads = 1;  ///< K
  HeadColumns queries;
  HeadColumns keys;
  HeadColumns values;
};
/// One tensor [B, T, (A + 2K) * D] with the queries first, then the keys, then the values.
[[nodiscard]] AttentionInput packed_attention_input(const TensorView& qkv, std::int64_t heads,
                                                    std::int64_t kv_heads);

/// Shapes: out [B, T, A*D]; log_sum_exp [B, A, T].
struct AttentionForward {
  AttentionInput input;
  TensorView out;
  TensorView log_sum_exp;
};
void attention_forward(Stream& stream, const AttentionForward& arguments);

/// What `gradient` names is overwritten. `delta` [B, A, T] is scratch: sum over D of dout * out.
struct AttentionBackward {
  AttentionInput input;
  TensorView out;
  TensorView log_sum_exp;
  TensorView dout;
  TensorView delta;
  AttentionInput gradient;  ///< With the input's heads.
};
void attention_backward(Stream& stream, const AttentionBackward& arguments);

/// Which sequence of a cache a row of new tokens continues, and the positions it has there.
struct CachedSequence {
  std::int64_t slot = 0;
  std::int64_t past = 0;
};

/// New tokens against a cache: row b of the input continues sequences[b], each slot at most once.
/// Writes the new keys and values at positions [past, past + T) of the slot and attends causally to
/// all before. A head's positions lie one after the other, to be read as one stream.
/// Shapes: key_cache, value_cache [S, K, capacity, D]; out [B, T, A*D]. past + T must not exceed
/// the capacity.
struct AttentionCached {
  AttentionInput input;
  std::vector<CachedSequence> sequences;
  TensorView key_cache;
  TensorView value_cache;
  TensorView out;
};
void attention_cached(Stream& stream, const AttentionCached& arguments);

}  // namespace quadrille::kernels
