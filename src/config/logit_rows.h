// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the head cuts its logits.

#include <algorithm>
#include <cstdint>

namespace quadrille::internal {

/// Rows of logits at a time; the kernels room's head_loss_chunk (a test holds them together).
constexpr std::int64_t logit_rows(std::int64_t rows, std::int64_t vocab) {
  const std::int64_t fitting = (std::int64_t{4} << 20) / (4 * vocab);
  return std::min(rows, std::max<std::int64_t>(16, fitting));
}

}  // namespace quadrille::internal
