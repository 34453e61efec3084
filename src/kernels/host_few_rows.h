// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of a few rows, bound by the reading of the weights.

#include <cstdint>

namespace quadrille::internal {

/// y [rows, n] = x [rows, k] W [n, k]^T [+ bias] [+ y]. The weights are `weight`, or where it is
/// null the bf16 numbers `weight_bf16`.
struct FewRows {
  const float* x = nullptr;
  const float* weight = nullptr;
  const std::uint16_t* weight_bf16 = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t x_row = 0;  ///< Floats from row to row of x; host_few_rows sets it.
  bool accumulate = false;
};
void host_few_rows(const FewRows& given);

}  // namespace quadrille::internal
