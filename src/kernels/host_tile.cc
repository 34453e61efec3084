// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_tile.h"

#include "quadrille/base/check.h"

namespace quadrille::internal {

float* TileScratch::take(std::int64_t floats) {
  // Every piece starts on a cache line.
  constexpr std::int64_t kLine = 16;
  QD_CHECK(taken_ + padded(floats, kLine) <= capacity_);
  float* piece = memory_.get() + taken_;
  taken_ += padded(floats, kLine);
  return piece;
}

}  // namespace quadrille::internal
