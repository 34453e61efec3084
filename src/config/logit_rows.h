// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the head cuts its logits.

#include <algorithm>
#include <cstdint>

namespace quadrille::internal {

/// Rows of logits at a time; the kernels room's head_loss_chunk (a test holds them together).
constexpr std::int64_t logit_rows(std::int64_t rows, std::int64_t vocab) {
  const std::int64_t most = std::max<std::int64_t>(256, (std::int64_t{4} << 20) / (4 * vocab));
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

}  // namespace quadrille::internal
