// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The host's matrix product, implemented by one of two twins: onednn_matmul.cc or
// openblas_matmul.cc.

#include <cstdint>

namespace quadrille::internal {

/// C [m, n] = op(A) [m, k] op(B) [k, n] + bias, or += without bias. Row-major and dense: A is [m,
/// k] or, transposed, [k, m]; B likewise. No extent is 0.
struct HostMatmul {
  const void* a = nullptr;  ///< fp32, or bf16 where `bf16` says so. B likewise.
  const void* b = nullptr;
  float* c = nullptr;
  const float* bias = nullptr;  ///< [n], or null.
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool bf16 = false;
};
/// Runs on the calling thread's OpenMP pool: not to be called inside a parallel region.
void host_matmul(const HostMatmul& product);

/// Whether `bf16` may be asked for: by instructions made for it, not at a loss of speed.
[[nodiscard]] bool host_multiplies_bf16();

[[nodiscard]] const char* host_matmul_library();

}  // namespace quadrille::internal
