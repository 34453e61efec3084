// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of softmax and cross-entropy over the rows of one chunk of logits.

#include <cstdint>

namespace quadrille::internal {

struct CrossEntropyChunk {
  float* logits = nullptr;  ///< [rows, vocab]; overwritten by the gradient where it is wanted.
  const std::int32_t* targets = nullptr;  ///< [rows]; -1 does not count.
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  bool gradient = false;
};
/// The sum of the rows' losses, in row order.
[[nodiscard]] double host_cross_entropy(const CrossEntropyChunk& chunk);

}  // namespace quadrille::internal
