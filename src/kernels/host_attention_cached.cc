// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Attention of new tokens to a cache. A few queries read each key and value once, straight from the
// cache; many go the tiled way.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host_attention.h"
#include "kernels/host_head.h"
#include "kernels/host_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_attention_cached.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// out += the rows of values weighed, four at a time.
HWY_INLINE void add_weighed(const HeadForward& head, const float* weights, std::int64_t keys,
                            float* out) {
  const std::int64_t row = head.key_row;
  std::int64_t key = 0;
  for (; key + 4 <= keys; key += 4) {
    const float* v = head.values + key * row;
    const float* w = weights + key;
    for_lanes(head.width, [=](auto d, std::int64_t i) HWY_ATTR {
      const auto first = hn::MulAdd(hn::Set(d, w[0]), hn::LoadU(d, v + i),
                                    hn::Mul(hn::Set(d, w[1]), hn::LoadU(d, v + row + i)));
      const auto second = hn::MulAdd(hn::Set(d, w[2]), hn::LoadU(d, v + 2 * row + i),
                                     hn::Mul(hn::Set(d, w[3]), hn::LoadU(d, v + 3 * row + i)));
      hn::StoreU(hn::Add(hn::LoadU(d, out + i), hn::Add(first, second)), d, out + i);
    });
  }
  for (; key < keys; ++key) {
    const float* v = head.values + key * row;
    const float weight = weights[key];
    for_lanes(head.width, [=](auto d, std::int64_t i) HWY_ATTR {
      hn::StoreU(hn::MulAdd(hn::Set(d, weight), hn::LoadU(d, v + i), hn::LoadU(d, out + i)), d,
                 out + i);
    });
  }
}

/// One query straight from the cache, without packing what is read only once.
void attend_one_query(const HeadForward& head, std::int64_t query) {
  const std::int64_t keys = head.past + query + 1;
  thread_local TileScratch scratch;
  scratch.reserve(padded(keys, kTilePadding));
  float* weights = scratch.take(keys);
  const float* q = head.queries + query * head.query_row;
  const float factor = 1.0F / std::sqrt(static_cast<float>(head.width));
  float most = -std::numeric_limits<float>::infinity();
  for (std::int64_t key = 0; key < keys; ++key) {
    weights[key] = factor * dot(q, head.keys + key * head.key_row, head.width);
    most = std::max(most, weights[key]);
  }
  for_lanes(keys, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(exponential(d, hn::Sub(hn::LoadU(d, weights + i), hn::Set(d, most))), d,
               weights + i);
  });
  const float sum =
      sum_lanes(keys, [=](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, weights + i); });
  float* out = head.out + query * head.out_row;
  std::fill_n(out, head.width, 0.0F);
  add_weighed(head, weights, keys, out);
  for_lanes(head.width, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, out + i), hn::Set(d, 1.0F / sum)), d, out + i);
  });
}

void attend_queries(const HeadForward& head) {
  for (std::int64_t query = 0; query < head.query_count; ++query) attend_one_query(head, query);
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

/// From this many new tokens on packing the cached keys pays.
constexpr std::int64_t kLeastTiledQueries = 8;

/// Where a head of a slot begins in a cache [S, K, capacity, D].
float* cached_head(const TensorView& cache, std::int64_t slot, std::int64_t head) {
  const Shape& shape = cache.shape();
  return cache.host<float>() + (slot * shape[1] + head) * shape[2] * shape[3];
}

/// Appends the new keys (or values) to their cache.
void append_to_cache(const kernels::HeadColumns& columns,
                     const std::vector<kernels::CachedSequence>& sequences,
                     const TensorView& cache) {
  const std::int64_t heads = cache.shape()[1];
  const std::int64_t width = cache.shape()[3];
  const std::int64_t row = head_row(columns);
  for (std::size_t b = 0; b < sequences.size(); ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* source = head_start(columns, static_cast<std::int64_t>(b), h, width);
      float* target = cached_head(cache, sequences[b].slot, h) + sequences[b].past * width;
      for (std::int64_t t = 0; t < columns.tensor.shape()[1]; ++t) {
        std::copy_n(source + t * row, width, target + t * width);
      }
    }
  }
}

}  // namespace

HWY_EXPORT(attend_queries);

void host_attention_cached(const kernels::AttentionCached& arguments) {
  const kernels::AttentionInput& input = arguments.input;
  append_to_cache(input.keys, arguments.sequences, arguments.key_cache);
  append_to_cache(input.values, arguments.sequences, arguments.value_cache);
  const Shape& out = arguments.out.shape();
  const std::int64_t width = out[2] / input.heads;
  parallel_tasks(out[0] * input.heads, [&](std::int64_t task) {
    const std::int64_t b = task / input.heads;
    const std::int64_t h = task % input.heads;
    const std::int64_t shared = h / (input.heads / input.kv_heads);
    const auto& [slot, past] = arguments.sequences[static_cast<std::size_t>(b)];
    const HeadForward head{.queries = head_start(input.queries, b, h, width),
                           .keys = cached_head(arguments.key_cache, slot, shared),
                           .values = cached_head(arguments.value_cache, slot, shared),
                           .out = arguments.out.host<float>() + b * out[1] * out[2] + h * width,
                           .query_row = head_row(input.queries),
                           .key_row = width,
                           .out_row = out[2],
                           .query_count = out[1],
                           .past = past,
                           .width = width};
    if (out[1] >= kLeastTiledQueries) return host_attend_head(head);
    HWY_DYNAMIC_DISPATCH(attend_queries)(head);
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
