// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cross-entropy where each of several ranks has the logits of a part of the vocabulary only. A rank
// reduces its part of each row to three numbers; from everybody's every rank finds the same loss
// and the gradient of its own logits. Source: Shoeybi et al. 2019, "Megatron-LM", section 3
// (parallel cross-entropy); Milakov & Gimelshein 2018, "Online normalizer calculation for softmax",
// section 3 (joining maxima and sums).

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// Of a rank's part of each row: its largest logit, the sum of e^(logit - largest), and the
/// target's logit (0 where another rank has it).
inline constexpr std::int64_t kRowStatistics = 3;

/// Replaces the logits by e^(logit - largest of the part) and writes the rows' statistics.
/// Shapes: logits [N, V] of ids first_id ... first_id + V - 1, targets [N] int32 (-1 does not
/// count), statistics [N, 3].
struct VocabStatistics {
  TensorView logits;
  TensorView targets;
  std::int64_t first_id = 0;
  TensorView statistics;
};
void vocab_statistics(Stream& stream, const VocabStatistics& arguments);

/// loss_sum += sum over rows of -log softmax[target], from the statistics of all parts, joined in
/// the order of the parts: the same bits whoever asks. With `gradient`, `logits` (as
/// vocab_statistics left them) become the loss's gradient.
/// Shapes: logits [N, V], targets [N], statistics [parts, N, 3], loss_sum [1] float64.
struct VocabCrossEntropy {
  TensorView logits;
  TensorView targets;
  std::int64_t first_id = 0;
  TensorView statistics;
  std::int64_t part = 0;  ///< Which one `logits` is.
  TensorView loss_sum;
  bool gradient = false;
};
void vocab_cross_entropy(Stream& stream, const VocabCrossEntropy& arguments);

}  // namespace quadrille::kernels
