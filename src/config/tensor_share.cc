// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/tensor_share.h"

#include "quadrille/base/check.h"

namespace quadrille {

bool shares_kv_heads(const ModelSpec& model, const TensorShare& share) {
  return model.key_value_heads() >= share.degree;
}

Cut query_cut(const ModelSpec& model) {
  return {.parts = 1, .groups = model.key_value_heads(), .unit = model.head_width()};
}

Extent query_heads(const ModelSpec& model, const TensorShare& share) {
  const Cut heads{.parts = 1, .groups = model.key_value_heads(), .unit = 1};
  return shard_extents(model.heads, heads, share.index, share.degree).front();
}

Extent kv_heads(const ModelSpec& model, const TensorShare& share) {
  if (shares_kv_heads(model, share)) {
    return shard_extent(model.key_value_heads(), share.index, share.degree);
  }
  const Extent queries = query_heads(model, share);
  QD_CHECK(queries.length > 0);
  return {queries.first / (model.heads / model.key_value_heads()), 1};
}

Extent ffn_columns(const ModelSpec& model, const TensorShare& share) {
  return shard_extent(model.ffn, share.index, share.degree);
}

Extent vocab_rows(const ModelSpec& model, const TensorShare& share) {
  return shard_extent(model.vocab, share.index, share.degree);
}

Extent residual_rows(std::int64_t rows, const TensorShare& share) {
  if (!share.shares_rows()) return {0, rows};
  return shard_extent(rows, share.index, share.degree);
}

}  // namespace quadrille
