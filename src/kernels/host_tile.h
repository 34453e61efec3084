// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small dense pieces that attention works on, and the thread's memory for them.

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>

namespace quadrille::internal {

/// C [m, n] = or += A [m, k] B [k, n]. Element (i, p) of A lies at a[i * a_row + p * a_column], so
/// A may be transposed; rows of B and C are dense and padded to a multiple of kTilePadding, and n
/// is that multiple.
struct TileProduct {
  const float* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_column = 1;
  const float* b = nullptr;
  std::int64_t b_row = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool accumulate = false;
};

/// Queries and keys of a tile.
inline constexpr std::int64_t kTile = 64;
/// Floats of the widest vector we compile for.
inline constexpr std::int64_t kTilePadding = 16;

inline std::int64_t padded(std::int64_t extent, std::int64_t multiple) {
  return (extent + multiple - 1) / multiple * multiple;
}

/// Scratch of one thread, kept between calls so that a step allocates nothing. Pieces are taken one
/// after the other and are all given back by the next reserve().
class TileScratch {
 public:
  /// Makes room for `floats` in all; what was taken before is gone.
  void reserve(std::int64_t floats) {
    taken_ = 0;
    if (floats <= capacity_) return;
    memory_ = hwy::AllocateAligned<float>(static_cast<std::size_t>(floats));
    capacity_ = floats;
  }
  [[nodiscard]] float* take(std::int64_t floats);

 private:
  hwy::AlignedFreeUniquePtr<float[]> memory_;
  std::int64_t capacity_ = 0;
  std::int64_t taken_ = 0;
};

}  // namespace quadrille::internal
