// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a block needs to continue sequences that a cache holds the past of: B of them, n new tokens
// each. N = B * n.

#include <vector>

#include "model/norm.h"
#include "quadrille/device/device.h"
#include "quadrille/kernels/attention.h"
#include "quadrille/model/decoder.h"

namespace quadrille::internal {

struct DecodeBuffers {
  Stream* stream = nullptr;
  const DecoderWeights* weights = nullptr;
  std::vector<kernels::CachedSequence> sequences;  ///< [B]
  TensorView x;            ///< [B, n, H] the residual stream, updated in place.
  TensorView branch;       ///< [B, n, H]
  TensorView attention;    ///< [B, n, A*D]
  TensorView qkv;          ///< [B, n, (A + 2K) * D]
  TensorView expanded;     ///< [B, n, F], or 2F with a gate
  TensorView activated;    ///< [B, n, F]
  TensorView scratch;      ///< Of the products, see kernels::Projection.
  Norm::Statistics norm;   ///< [N] each
  TensorView key_cache;    ///< [S, K, capacity, D] of this block
  TensorView value_cache;  ///< [S, K, capacity, D] of this block
};

/// Calls run(first, count, position) for runs of rows of the batch that go on from one position.
template <class Run>
void for_equal_positions(const std::vector<kernels::CachedSequence>& sequences, const Run& run) {
  for (std::size_t first = 0; first < sequences.size();) {
    std::size_t end = first + 1;
    while (end < sequences.size() && sequences[end].past == sequences[first].past) ++end;
    run(static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first),
        sequences[first].past);
    first = end;
  }
}

}  // namespace quadrille::internal
