// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Matrix products on tensor views: oneDNN on the host (OpenBLAS where oneDNN is absent). All sums
// are fp32; the order of a sum is fixed for a given shape, thread count and instruction set.

#include "quadrille/device/device.h"
#include "quadrille/kernels/rounding.h"

namespace quadrille::kernels {

/// C = op(A) op(B) [+ bias] [+ C]. Row-major; op transposes where asked.
/// Shapes: op(A) [M, K], op(B) [K, N], C [M, N], bias [N] or empty.
struct Matmul {
  TensorView a;
  TensorView b;
  TensorView c;
  bool transpose_a = false;
  bool transpose_b = false;
  TensorView bias;          ///< Added to every row; empty for none. Not with `accumulate`.
  bool accumulate = false;  ///< Adds to what C holds.
  Rounding rounding = {};   ///< Of A and B; C and the bias stay fp32.
  TensorView rounded_b =
      {};  ///< What to_bf16() (projection.h) made of B, read in its place; empty: B is rounded.
};
void matmul(Stream& stream, const Matmul& arguments);

/// Name of the library behind matmul: "oneDNN 2.6.3", "OpenBLAS 0.3.21".
[[nodiscard]] const char* matmul_library();

}  // namespace quadrille::kernels
