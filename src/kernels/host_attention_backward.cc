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

/// Takes the memory of all and packs what the group shares.
Packed pack_shared(const GroupBackward& group, TileScratch& scratch) {
  const std::int64_t rows = padded(group.count, kTile);
  const std::int64_t wide = padded(group.width, kTilePadding);
  scratch.reserve(8 * rows * wide + 2 * kTile * kTile);
  Packed packed{.queries = scratch.take(rows * wide),
                .keys = scratch.take(rows * wide),
                .dout = scratch.take(rows * wide),
                .keys_transposed = scratch.take(rows * group.width),
                .values_transposed = scratch.take(rows * group.width),
                .dqueries = scratch.take(rows * wide),
                .dkeys = scratch.take(rows * wide),
                .dvalues = scratch.take(rows * wide),
                .weights = scratch.take(kTile * kTile),
                .dweights = scratch.take(kTile * kTile),
                .wide = wide};
  const float factor = 1.0F / std::sqrt(static_cast<float>(group.width));
  const HeadRows keys{group.keys, group.key_row, group.count, group.width};
  pack_rows(keys, packed.keys);
  pack_transposed(keys, factor, packed.keys_transposed);
  pack_transposed({group.values, group.key_row, group.count, group.width}, 1.0F,
                  packed.values_transposed);
  std::fill_n(packed.dkeys, rows * wide, 0.0F);
  std::fill_n(packed.dvalues, rows * wide, 0.0F);
  return packed;
}

/// Packs what belongs to query head `member` of the group alone.
void pack_member(const GroupBackward& group, std::int64_t member, const Packed& packed) {
  const std::int64_t column = member * group.width;
  pack_rows({group.queries + column, group.query_row, group.count, group.width}, packed.queries);
  pack_rows({group.dout + column, group.out_row, group.count, group.width}, packed.dout);
  std::fill_n(packed.dqueries, padded(group.count, kTile) * packed.wide, 0.0F);
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

/// The rows that one query head's tiles need besides what is packed.
struct MemberRows {
  const float* log_sum_exp = nullptr;  // [T]
  const float* delta = nullptr;        // [T]
  std::int64_t count = 0;              // T
  std::int64_t width = 0;              // D
};

/// One tile of queries from `query` on against one tile of keys from `key` on.
HWY_INLINE void backward_tile(const MemberRows& head, const Packed& packed, std::int64_t query,
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

void backward_member(const GroupBackward& group, std::int64_t member, const Packed& packed) {
  pack_member(group, member, packed);
  const std::int64_t column = member * group.width;
  float* delta = group.delta + member * group.count;
  for (std::int64_t t = 0; t < group.count; ++t) {
    const std::int64_t place = t * group.out_row + column;
    delta[t] = dot(group.dout + place, group.out + place, group.width);
  }
  const MemberRows head{.log_sum_exp = group.log_sum_exp + member * group.count,
                        .delta = delta,
                        .count = group.count,
                        .width = group.width};
  for (std::int64_t key = 0; key < group.count; key += kTile) {
    for (std::int64_t query = key; query < group.count; query += kTile) {
      backward_tile(head, packed, query, key);
    }
  }
  const float factor = 1.0F / std::sqrt(static_cast<float>(group.width));
  for (std::int64_t t = 0; t < group.count; ++t) {
    unpack_row(packed.dqueries + t * packed.wide, group.width, factor,
               group.dqueries + t * group.dquery_row + column);
  }
}

void backward_group(const GroupBackward& group) {
  thread_local TileScratch scratch;
  const Packed packed = pack_shared(group, scratch);
  for (std::int64_t member = 0; member < group.group; ++member) {
    backward_member(group, member, packed);
  }
  const float factor = 1.0F / std::sqrt(static_cast<float>(group.width));
  for (std::int64_t t = 0; t < group.count; ++t) {
    const std::int64_t row = t * group.dkey_row;
    unpack_row(packed.dkeys + t * packed.wide, group.width, factor, group.dkeys + row);
    unpack_row(packed.dvalues + t * packed.wide, group.width, 1.0F, group.dvalues + row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {

HWY_EXPORT(backward_group);

void host_attention_backward(const kernels::AttentionBackward& arguments) {
  const kernels::AttentionInput& input = arguments.input;
  const kernels::AttentionInput& gradient = arguments.gradient;
  const Shape& out = arguments.out.shape();
  const std::int64_t width = out[2] / input.heads;
  const std::int64_t group = input.heads / input.kv_heads;
  parallel_tasks(out[0] * input.kv_heads, [&](std::int64_t task) {
    const std::int64_t b = task / input.kv_heads;
    const std::int64_t shared = task % input.kv_heads;
    const std::int64_t first = shared * group;
    const std::int64_t states = b * out[1] * out[2] + first * width;
    const std::int64_t rows = (b * input.heads + first) * out[1];
    HWY_DYNAMIC_DISPATCH(backward_group)
    ({.queries = head_start(input.queries, b, first, width),
      .keys = head_start(input.keys, b, shared, width),
      .values = head_start(input.values, b, shared, width),
      .out = arguments.out.host<float>() + states,
      .dout = arguments.dout.host<float>() + states,
      .log_sum_exp = arguments.log_sum_exp.host<float>() + rows,
      .delta = arguments.delta.host<float>() + rows,
      .dqueries = head_start(gradient.queries, b, first, width),
      .dkeys = head_start(gradient.keys, b, shared, width),
      .dvalues = head_start(gradient.values, b, shared, width),
      .query_row = head_row(input.queries),
      .key_row = head_row(input.keys),
      .dquery_row = head_row(gradient.queries),
      .dkey_row = head_row(gradient.keys),
      .out_row = out[2],
      .group = group,
      .count = out[1],
      .width = width});
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
