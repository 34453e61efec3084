// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One head of one sequence, as the tiled kernels see it.

#include <cstdint>

#include "quadrille/kernels/attention.h"

namespace quadrille::internal {

/// Query i attends to keys 0 .. past + i. Rows of a matrix are `*_row` floats apart.
struct HeadForward {
  const float* queries = nullptr;
  const float* keys = nullptr;
  const float* values = nullptr;
  float* out = nullptr;
  float* log_sum_exp = nullptr;  ///< Null: not wanted.
  std::int64_t query_row = 0;
  std::int64_t key_row = 0;  ///< Of the values too.
  std::int64_t out_row = 0;
  std::int64_t query_count = 0;
  std::int64_t past = 0;
  std::int64_t width = 0;  ///< D
};

/// One head of keys and values with the `group` heads of queries that share it, side by side.
struct GroupBackward {
  const float* queries = nullptr;
  const float* keys = nullptr;
  const float* values = nullptr;
  const float* out = nullptr;
  const float* dout = nullptr;
  const float* log_sum_exp = nullptr;  ///< [group, T]
  float* delta = nullptr;              ///< [group, T]
  float* dqueries = nullptr;
  float* dkeys = nullptr;
  float* dvalues = nullptr;
  std::int64_t query_row = 0;
  std::int64_t key_row = 0;  ///< Of the values too.
  std::int64_t dquery_row = 0;
  std::int64_t dkey_row = 0;  ///< Of the values too.
  std::int64_t out_row = 0;
  std::int64_t group = 1;
  std::int64_t count = 0;  ///< T
  std::int64_t width = 0;  ///< D
};

/// Where head `head` of sequence `b` starts, and how far its rows are apart.
inline float* head_start(const kernels::HeadColumns& columns, std::int64_t b, std::int64_t head,
                         std::int64_t width) {
  const Shape& shape = columns.tensor.shape();
  return columns.tensor.host<float>() + b * shape[1] * shape[2] + columns.first + head * width;
}
inline std::int64_t head_row(const kernels::HeadColumns& columns) {
  return columns.tensor.shape()[2];
}

}  // namespace quadrille::internal
