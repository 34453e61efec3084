// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the ranks of the tensor axis share a model, as plain arithmetic: which heads, which columns
// of the MLP, which words of the vocabulary and which rows of the residual stream are one rank's.
// Nothing is padded: shares differ by one unit where a number does not divide.
// Source: Shoeybi et al. 2019, "Megatron-LM", section 3; Korthikanti et al. 2022, "Reducing
// activation recomputation in large transformer models", section 4.2.2 (sequence).

#include <cstdint>

#include "quadrille/config/job_spec.h"
#include "quadrille/mesh/placement.h"

namespace quadrille {

/// One rank's place among those that share each layer's matrices.
struct TensorShare {
  int degree = 1;
  int index = 0;
  bool sequence = false;  ///< Norms, dropout and residuals are sharded by rows as well.

  [[nodiscard]] bool shares_rows() const { return sequence && degree > 1; }
};

/// Whether there are key and value heads for all: else each rank has the one that its query heads
/// share, and the projections to keys and values are replicated.
[[nodiscard]] bool shares_kv_heads(const ModelSpec& model, const TensorShare& share);
/// How query heads are dealt, counted in elements of D: those of one key and value head together.
[[nodiscard]] Cut query_cut(const ModelSpec& model);

/// Heads of queries, and of keys and values, that this rank works on.
[[nodiscard]] Extent query_heads(const ModelSpec& model, const TensorShare& share);
[[nodiscard]] Extent kv_heads(const ModelSpec& model, const TensorShare& share);
/// Columns of the MLP's F.
[[nodiscard]] Extent ffn_columns(const ModelSpec& model, const TensorShare& share);
/// Ids whose embedding and logits are this rank's.
[[nodiscard]] Extent vocab_rows(const ModelSpec& model, const TensorShare& share);
/// Of N token rows those whose norms, dropout and residuals are this rank's; all without
/// `sequence`.
[[nodiscard]] Extent residual_rows(std::int64_t rows, const TensorShare& share);

}  // namespace quadrille
