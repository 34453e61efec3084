// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One head of one sequence, as the tiled kernels see it.

#include <cstdint>

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

struct HeadBackward {
  const float* qkv = nullptr;  ///< The head's queries; keys and values follow `part` apart.
  const float* out = nullptr;
  const float* dout = nullptr;
  const float* log_sum_exp = nullptr;
  float* delta = nullptr;
  float* dqkv = nullptr;
  std::int64_t qkv_row = 0;
  std::int64_t out_row = 0;
  std::int64_t part = 0;
  std::int64_t count = 0;  ///< T
  std::int64_t width = 0;  ///< D
};

}  // namespace quadrille::internal
