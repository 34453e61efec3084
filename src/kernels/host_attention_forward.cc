// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Attention, forward: for each tile of queries the tiles of keys that it sees go by, with a running
// maximum and sum per row. Source: Dao et al. 2022, "FlashAttention", algorithm 1; Milakov &
// Gimelshein 2018, "Online normalizer calculation for softmax".

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host_attention.h"
#include "kernels/host_head.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_attention_forward.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_parallel.h"
#include "kernels/host_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// What a tile of queries carries over the tiles of keys.
struct Running {
  float* scores = nullptr;   // [kTile, kTile]
  float* out = nullptr;      // [kTile, padded D], not yet divided by the sum
  float* maximum = nullptr;  // [kTile]
  float* sum = nullptr;      // [kTile]
};

/// Turns one row of scores, of which the first `visible` count, into weights relative to the row's
/// new maximum, and brings sum and out to that maximum.
HWY_INLINE void softmax_row(const Running& running, std::int64_t row, std::int64_t visible,
                            std::int64_t wide) {
  const TileTag d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  float* HWY_RESTRICT scores = running.scores + row * kTile;
  const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto places = hn::Iota(d, 0.0F);
  auto most = hidden;
  for (std::int64_t i = 0; i < kTile; i += width) {
    auto score = hn::Load(d, scores + i);
    if (i + width > visible) {
      const auto seen = hn::Lt(places, hn::Set(d, static_cast<float>(visible - i)));
      score = hn::IfThenElse(seen, score, hidden);
      hn::Store(score, d, scores + i);
    }
    most = hn::Max(most, score);
  }
  const float before = running.maximum[row];
  const float now = std::max(before, hn::GetLane(hn::MaxOfLanes(d, most)));
  auto sums = hn::Zero(d);
  for (std::int64_t i = 0; i < kTile; i += width) {
    const auto weight = exponential(d, hn::Sub(hn::Load(d, scores + i), hn::Set(d, now)));
    hn::Store(weight, d, scores + i);
    sums = hn::Add(sums, weight);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  if (now != before) {
    const auto shrink = exponential(d, hn::Set(d, before - now));
    float* HWY_RESTRICT out = running.out + row * wide;
    for (std::int64_t i = 0; i < wide; i += width) {
      hn::Store(hn::Mul(hn::Load(d, out + i), shrink), d, out + i);
    }
    running.sum[row] *= hn::GetLane(shrink);
    running.maximum[row] = now;
  }
  running.sum[row] += sum;
}

HWY_INLINE void finish_row(const HeadForward& head, const Running& running, std::int64_t row,
                           std::int64_t query) {
  const std::int64_t wide = padded(head.width, kTilePadding);
  const float sum = running.sum[row];
  unpack_row(running.out + row * wide, head.width, 1.0F / sum, head.out + query * head.out_row);
  if (head.log_sum_exp != nullptr) {
    head.log_sum_exp[query] = running.maximum[row] + std::log(sum);
  }
}

/// Queries [first, first + count) against every key they see.
HWY_INLINE void query_tile(const HeadForward& head, const Running& running, const float* keys,
                           const float* values, std::int64_t first) {
  const std::int64_t wide = padded(head.width, kTilePadding);
  const std::int64_t count = std::min(kTile, head.query_count - first);
  std::fill_n(running.out, kTile * wide, 0.0F);
  std::fill_n(running.sum, kTile, 0.0F);
  std::fill_n(running.maximum, kTile, -std::numeric_limits<float>::infinity());
  const std::int64_t last_key = head.past + first + count - 1;
  for (std::int64_t key = 0; key <= last_key; key += kTile) {
    tile_product({.a = head.queries + first * head.query_row,
                  .a_row = head.query_row,
                  .b = keys + key * head.width,
                  .b_row = kTile,
                  .c = running.scores,
                  .c_row = kTile,
                  .m = count,
                  .n = kTile,
                  .k = head.width});
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t visible = std::min(kTile, head.past + first + row + 1 - key);
      softmax_row(running, row, visible, wide);
    }
    tile_product({.a = running.scores,
                  .a_row = kTile,
                  .b = values + key * wide,
                  .b_row = wide,
                  .c = running.out,
                  .c_row = wide,
                  .m = count,
                  .n = wide,
                  .k = std::min(kTile, last_key + 1 - key),
                  .accumulate = true});
  }
  for (std::int64_t row = 0; row < count; ++row) finish_row(head, running, row, first + row);
}

void attend_head(const HeadForward& head) {
  const std::int64_t keys = head.past + head.query_count;
  const std::int64_t rows = padded(keys, kTile);
  const std::int64_t wide = padded(head.width, kTilePadding);
  thread_local TileScratch scratch;
  scratch.reserve(rows * (padded(head.width, kTilePadding) + wide) + kTile * (kTile + wide + 2));
  float* packed_keys = scratch.take(rows * head.width);
  float* packed_values = scratch.take(rows * wide);
  const Running running{.scores = scratch.take(kTile * kTile),
                        .out = scratch.take(kTile * wide),
                        .maximum = scratch.take(kTile),
                        .sum = scratch.take(kTile)};
  const float factor = 1.0F / std::sqrt(static_cast<float>(head.width));
  pack_transposed({head.keys, head.key_row, keys, head.width}, factor, packed_keys);
  pack_rows({head.values, head.key_row, keys, head.width}, packed_values);
  for (std::int64_t first = 0; first < head.query_count; first += kTile) {
    query_tile(head, running, packed_keys, packed_values, first);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
HWY_EXPORT(attend_head);

void host_attention_forward(const kernels::AttentionForward& arguments) {
  const kernels::AttentionInput& input = arguments.input;
  const Shape& out = arguments.out.shape();
  const std::int64_t width = out[2] / input.heads;
  parallel_tasks(out[0] * input.heads, [&](std::int64_t task) {
    const std::int64_t b = task / input.heads;
    const std::int64_t h = task % input.heads;
    const std::int64_t shared = h / (input.heads / input.kv_heads);
    HWY_DYNAMIC_DISPATCH(attend_head)
    ({.queries = head_start(input.queries, b, h, width),
      .keys = head_start(input.keys, b, shared, width),
      .values = head_start(input.values, b, shared, width),
      .out = arguments.out.host<float>() + b * out[1] * out[2] + h * width,
      .log_sum_exp = arguments.log_sum_exp.host<float>() + task * out[1],
      .query_row = head_row(input.queries),
      .key_row = head_row(input.keys),
      .out_row = out[2],
      .query_count = out[1],
      .width = width});
  });
}

void host_attend_head(const HeadForward& head) { HWY_DYNAMIC_DISPATCH(attend_head)(head); }

}  // namespace quadrille::internal
#endif  // HWY_ONCE
