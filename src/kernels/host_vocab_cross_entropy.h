// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of cross-entropy over parts of a vocabulary.

#include <cstdint>

namespace quadrille::internal {

struct VocabPart {
  float* logits = nullptr;                ///< [rows, vocab]
  const std::int32_t* targets = nullptr;  ///< [rows]
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::int64_t first_id = 0;
};

/// statistics [rows, 3]; the logits become exponentials.
void host_vocab_statistics(const VocabPart& part, float* statistics);

struct AllParts {
  const float* statistics = nullptr;  ///< [parts, rows, 3]
  std::int64_t parts = 0;
  std::int64_t own = 0;
  bool gradient = false;
};
/// The sum of the rows' losses, in row order.
[[nodiscard]] double host_vocab_cross_entropy(const VocabPart& part, const AllParts& all);

}  // namespace quadrille::internal
