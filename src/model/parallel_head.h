// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The output head and its loss where ranks share the vocabulary. A chunk of rows at a time: this
// rank's logits, three numbers a row of every rank, the loss, and this rank's part of the
// gradients. No rank ever has all logits of a row.

#include <cstdint>

#include "quadrille/base/result.h"
#include "quadrille/kernels/head_loss.h"
#include "quadrille/model/transformer.h"

namespace quadrille::internal {

struct ParallelHead {
  std::int64_t first_id = 0;  ///< Of this rank's words.
  TensorView statistics;      ///< Scratch [ranks, chunk, 3].
};

/// As kernels::head_loss, with the weight and its gradient of this rank's words [V of this rank, H]
/// and a workspace [chunk, V of this rank]; `loss.dx` becomes this rank's part of a sum. Collective
/// over the tensor group. Every rank adds the same loss.
[[nodiscard]] Result<void> parallel_head_loss(LayerContext& context, const ParallelHead& head,
                                              const kernels::HeadLoss& loss);

}  // namespace quadrille::internal
