// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What drawing a token needs of its logits, in one pass over each row: the numbers that a softmax
// sums, and their sums by blocks, so that a draw walks few of them.

#include <cstdint>

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// Weights that share one sum.
inline constexpr std::int64_t kSamplingBlock = 256;

/// Of the first `known` logits of each row: weights = exp((logit - largest) * inverse_temperature);
/// sums of each kSamplingBlock of them in float64; best = the id of the largest (the first of
/// equals), or -1 where a logit is not finite (the row's weights and sums then mean nothing).
/// Shapes: logits [B, V], weights [B, known], sums [B, ceil(known / kSamplingBlock)] F64, best [B]
/// I32.
struct SamplingWeights {
  TensorView logits;
  std::int64_t known = 0;
  double inverse_temperature = 1;
  TensorView weights;
  TensorView sums;
  TensorView best;
};
void sampling_weights(Stream& stream, const SamplingWeights& arguments);

}  // namespace quadrille::kernels
