// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a block needs to continue sequences that a cache holds the past of. N = batch * new tokens.

#include <cstdint>

#include "model/norm.h"
#include "quadrille/device/device.h"

namespace quadrille::internal {

struct DecodeBuffers {
  Stream* stream = nullptr;
  std::int64_t past = 0;   ///< Positions that the caches hold already.
  TensorView x;            ///< [B, n, H] the residual stream, updated in place.
  TensorView branch;       ///< [B, n, H]
  TensorView attention;    ///< [B, n, A*D]
  TensorView qkv;          ///< [B, n, (A + 2K) * D]
  TensorView expanded;     ///< [B, n, F], or 2F with a gate
  TensorView activated;    ///< [B, n, F]
  Norm::Statistics norm;   ///< [N] each
  TensorView key_cache;    ///< [B, capacity, K*D] of this block
  TensorView value_cache;  ///< [B, capacity, K*D] of this block
};

}  // namespace quadrille::internal
