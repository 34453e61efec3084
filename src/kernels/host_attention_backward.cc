// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Attention, backward: weights are computed again tile by tile from each row's log-sum-exp.
// Source: Dao et al. 2022, "FlashAttention", algorithm 4.

#include <algorithm>
#include <cmath>

#include "kernels/host_attention.h"
#include "kernels/host_head.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_attention_backward.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_parallel.h"
#include "kernels/host_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// A head's operands, packed; rows padded to kTile, columns to kTilePadding.
struct Packed {
  float* queries = nullptr;            // [T, D]
  float* keys = nullptr;               // [T, D]
  float* dout = nullptr;               // [T, D]
  float* keys_transposed = nullptr;    // [tiles, D, kTile], times 1/sqrt(D)
  float* values_transposed = nullptr;  // [tiles, D, kTile]
  float* dqueries = nullptr;           // [T, D], sums
  float* dkeys = nullptr;              // [T, D], sums
  float* dvalues = nullptr;            // [T, D], sums
  float* weights = nullptr;            // [kTile, kTile]
  float* dweights = nullptr;           // [kTile, kTile]
  std::int64_t wide = 0;               // padded D
};

Packed pack_head(const HeadBackward& head, TileScratch& scratch) {
  const std::int64_t rows = padded(head.count, kTile);
  const std::int64_t wide = padded(head.width, kTilePadding);
  scratch.reserve(8 * rows * wide + 2 * kTile * kTile);
  Packed packed{.queries = scratch.take(rows * wide),
                .keys = scratch.take(rows * wide),
                .dout = scratch.take(rows * wide),
                .keys_transposed = scratch.take(rows * head.width),
                .values_transposed = scratch.take(rows * head.width),
                .dqueries = scratch.take(rows * wide),
                .dkeys = scratch.take(rows * wide),
                .dvalues = scratch.take(rows * wide),
                .weights = scratch.take(kTile * kTile),
                .dweights = scratch.take(kTile * kTile),
                .wide = wide};
  const float factor = 1.0F / std::sqrt(static_cast<float>(head.width));
  const HeadRows queries{head.qkv, head.qkv_row, head.count, head.width};
  const HeadRows keys{head.qkv + head.part, head.qkv_row, head.count, head.width};
  const HeadRows values{head.qkv + 2 * head.part, head.qkv_row, head.count, head.width};
  pack_rows(queries, packed.queries);
  pack_rows(keys, packed.keys);
  pack_rows({head.dout, head.out_row, head.count, head.width}, packed.dout);
  pack_transposed(keys, factor, packed.keys_transposed);
  pack_transposed(values, 1.0F, packed.values_transposed);
  std::fill_n(packed.dqueries, rows * wide, 0.0F);
  std::fill_n(packed.dkeys, rows * wide, 0.0F);
  std::fill_n(packed.dvalues, rows * wide, 0.0F);
  return packed;
}

/// weights[row] = softmax of the scores that stand there; zero from `visible` on.
HWY_INLINE void weights_row(float* HWY_RESTRICT scores, float log_sum_exp, std::int64_t visible) {
  const TileTag d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  const auto places = hn::Iota(d, 0.0F);
  for (std::int64_t i = 0; i < kTile; i += width) {
    auto weight = exponential(d, hn::Sub(hn::Load(d, scores + i), hn::Set(d, log_sum_exp)));
    if (i + width > visible) {
      const auto seen = hn::Lt(places, hn::Set(d, static_cast<float>(visible - i)));
      weight = hn::IfThenElseZero(seen, weight);
    }
    hn::Store(weight, d, scores + i);
  }
}

/// dweights := weights (dweights - delta), the gradient of the scores.
HWY_INLINE void dscores_row(const float* HWY_RESTRICT weights, float delta,
                            float* HWY_RESTRICT dweights) {
  const TileTag d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < kTile; i += width) {
    const auto difference = hn::Sub(hn::Load(d, dweights + i), hn::Set(d, delta));
    hn::Store(hn::Mul(hn::Load(d, weights + i), difference), d, dweights + i);
  }
}

/// c += op(tile) b for a [kTile, kTile] tile; transposed where the tile's rows are summed over.
HWY_INLINE void add_product(const float* tile, bool transposed, const float* b, float* c,
                            std::int64_t wide, std::int64_t rows) {
  tile_product({.a = tile,
                .a_row = transposed ? 1 : kTile,
                .a_column = transposed ? kTile : 1,
                .b = b,
                .b_row = wide,
                .c = c,
                .c_row = wide,
                .m = transposed ? kTile : rows,
                .n = wide,
                .k = transposed ? rows : kTile,
                .accumulate = true});
}

/// One tile of queries from `query` on against one tile of keys from `key` on.
HWY_INLINE void backward_tile(const HeadBackward& head, const Packed& packed, std::int64_t query,
                              std::int64_t key) {
  const std::int64_t rows = std::min(kTile, head.count - query);
  const auto scores_into = [&](const float* rows_of_a, const float* transposed, float* target) {
    tile_product({.a = rows_of_a + query * packed.wide,
                  .a_row = packed.wide,
                  .b = transposed + key * head.width,
                  .b_row = kTile,
                  .c = target,
                  .c_row = kTile,
                  .m = rows,
                  .n = kTile,
                  .k = head.width});
  };
  scores_into(packed.queries, packed.keys_transposed, packed.weights);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t visible = std::min(kTile, query + row + 1 - key);
    weights_row(packed.weights + row * kTile, head.log_sum_exp[query + row], visible);
  }
  add_product(packed.weights, true, packed.dout + query * packed.wide,
              packed.dvalues + key * packed.wide, packed.wide, rows);
  scores_into(packed.dout, packed.values_transposed, packed.dweights);
  for (std::int64_t row = 0; row < rows; ++row) {
    dscores_row(packed.weights + row * kTile, head.delta[query + row],
                packed.dweights + row * kTile);
  }
  add_product(packed.dweights, false, packed.keys + key * packed.wide,
              packed.dqueries + query * packed.wide, packed.wide, rows);
  add_product(packed.dweights, true, packed.queries + query * packed.wide,
              packed.dkeys + key * packed.wide, packed.wide, rows);
}

void backward_head(const HeadBackward& head) {
  thread_local TileScratch scratch;
  const Packed packed = pack_head(head, scratch);
  for (std::int64_t t = 0; t < head.count; ++t) {
    head.delta[t] = dot(head.dout + t * head.out_row, head.out + t * head.out_row, head.width);
  }
  for (std::int64_t key = 0; key < head.count; key += kTile) {
    for (std::int64_t query = key; query < head.count; query += kTile) {
      backward_tile(head, packed, query, key);
    }
  }
  const float factor = 1.0F / std::sqrt(static_cast<float>(head.width));
  for (std::int64_t t = 0; t < head.count; ++t) {
    float* target = head.dqkv + t * head.qkv_row;
    unpack_row(packed.dqueries + t * packed.wide, head.width, factor, target);
    unpack_row(packed.dkeys + t * packed.wide, head.width, factor, target + head.part);
    unpack_row(packed.dvalues + t * packed.wide, head.width, 1.0F, target + 2 * head.part);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {

HWY_EXPORT(backward_head);

void host_attention_backward(const kernels::AttentionBackward& arguments) {
  const Shape& out = arguments.out.shape();
  const std::int64_t width = out[2] / arguments.heads;
  parallel_tasks(out[0] * arguments.heads, [&](std::int64_t task) {
    const std::int64_t b = task / arguments.heads;
    const std::int64_t h = task % arguments.heads;
    const std::int64_t qkv = b * out[1] * 3 * out[2] + h * width;
    const std::int64_t states = b * out[1] * out[2] + h * width;
    HWY_DYNAMIC_DISPATCH(backward_head)
    ({.qkv = arguments.qkv.host<float>() + qkv,
      .out = arguments.out.host<float>() + states,
      .dout = arguments.dout.host<float>() + states,
      .log_sum_exp = arguments.log_sum_exp.host<float>() + task * out[1],
      .delta = arguments.delta.host<float>() + task * out[1],
      .dqkv = arguments.dqkv.host<float>() + qkv,
      .qkv_row = 3 * out[2],
      .out_row = out[2],
      .part = out[2],
      .count = out[1],
      .width = width});
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
