// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A linear layer as inference runs it. Few rows (one new token of a few sequences) cost what
// reading the weights costs, so these pass through the cache once, with all rows held against each
// piece; the sums of a row are the same bits whatever rows come with it. Many rows (a prompt) are
// matmul's. Weights may be stored as bf16, half the bytes to read; all sums are fp32.

#include <cstdint>

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// Most rows that go through the weights together, bits independent of each other.
inline constexpr std::int64_t kFewRows = 16;

/// y = x W^T [+ bias] [+ y].
/// Shapes: x [M, K], y [M, N], bias [N] or empty; weight F32 [N, K], or bf16 as U8 [N, 2K] from
/// to_bf16. With bf16 weights x stays fp32 up to kFewRows rows and is rounded to bf16 for more.
struct Projection {
  TensorView x;
  TensorView weight;
  TensorView bias;
  TensorView y;
  bool accumulate = false;
  TensorView scratch;  ///< F32, overwritten; at least projection_scratch() elements.
};
void projection(Stream& stream, const Projection& arguments);

/// Scratch for `rows` rows against a bf16 weight [N, K]; none where `rows` are few.
[[nodiscard]] std::int64_t projection_scratch(std::int64_t rows, std::int64_t outputs,
                                              std::int64_t inputs);

/// target [N, 2K] U8 = source [N, K] rounded to the nearest bf16, ties to even.
void to_bf16(Stream& stream, const TensorView& source, const TensorView& target);

}  // namespace quadrille::kernels
