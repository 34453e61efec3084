// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Draws tokens from logits on the device. Without a cut no row of them travels to the host: only
// sums of blocks, and the block that the draw falls into.

#include <cstdint>
#include <span>
#include <vector>

#include "infer/token_draw.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {

class TokenDrawer {
 public:
  struct Extents {
    std::int64_t rows = 1;   ///< Most rows of one call.
    std::int64_t known = 1;  ///< Ids from 0 that may be drawn.
  };
  [[nodiscard]] static Result<TokenDrawer> create(Stream& stream, Pool& pool, Extents extents);

  /// One id for each row of logits [n, V], by n uniform draws; waits for the stream.
  /// Errors: kInvalid for logits that are not finite.
  [[nodiscard]] Result<std::vector<std::int32_t>> draw(const TensorView& logits,
                                                       const SamplingOptions& options,
                                                       std::span<const double> draws);

 private:
  [[nodiscard]] Result<std::int32_t> draw_whole(std::int64_t row, double draw);
  [[nodiscard]] Result<std::int32_t> draw_cut(std::int64_t row, const SamplingOptions& options,
                                              double draw);

  Stream* stream_ = nullptr;
  Extents extents_;
  std::int64_t blocks_ = 0;
  Lease lease_;
  TensorView weights_;  ///< [rows, known]
  TensorView sums_;     ///< [rows, blocks] F64
  TensorView best_;     ///< [rows] I32
  std::vector<float> row_;
  CutDraw cut_;
};

}  // namespace quadrille::internal
