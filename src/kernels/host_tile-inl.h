// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Included once per instruction set by host_attention_*.cc (hence the toggled guard): the product
// of small tiles and the packing of their operands.
#if defined(QUADRILLE_HOST_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUADRILLE_HOST_TILE_INL_H_
#undef QUADRILLE_HOST_TILE_INL_H_
#else
#define QUADRILLE_HOST_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/host_lanes-inl.h"
#include "kernels/host_tile.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

using TileTag = hn::CappedTag<float, kTilePadding>;
using TileVector = hn::Vec<TileTag>;

/// kRows x kVectors sums stay in registers over all of k.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void tile_block(const TileProduct& p, std::int64_t row, std::int64_t column) {
  const TileTag d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT a = p.a + row * p.a_row;
  const float* HWY_RESTRICT b = p.b + column;
  float* HWY_RESTRICT c = p.c + row * p.c_row + column;
  const auto place = [&](std::size_t r, std::size_t v) {
    return c + static_cast<std::int64_t>(r) * p.c_row + static_cast<std::int64_t>(v) * width;
  };
  TileVector sums[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = p.accumulate ? hn::Load(d, place(r, v)) : hn::Zero(d);
    }
  }
  for (std::int64_t i = 0; i < p.k; ++i) {
    TileVector terms[kVectors];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v)
      terms[v] = hn::Load(d, b + i * p.b_row + static_cast<std::int64_t>(v) * width);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const TileVector factor =
          hn::Set(d, a[static_cast<std::int64_t>(r) * p.a_row + i * p.a_column]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVectors; ++v)
        sums[r][v] = hn::MulAdd(factor, terms[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVectors; ++v) hn::Store(sums[r][v], d, place(r, v));
  }
}

template <std::size_t kRows>
HWY_INLINE void tile_rows(const TileProduct& p, std::int64_t row) {
  const auto width = static_cast<std::int64_t>(hn::Lanes(TileTag()));
  std::int64_t column = 0;
  for (; column + 2 * width <= p.n; column += 2 * width) tile_block<kRows, 2>(p, row, column);
  for (; column < p.n; column += width) tile_block<kRows, 1>(p, row, column);
}

HWY_INLINE void tile_product(const TileProduct& p) {
  std::int64_t row = 0;
  // 8 x 2 sums fit the 32 registers of AVX-512, 4 x 2 the 16 of what came before it.
  if constexpr (HWY_TARGET <= HWY_AVX3) {
    for (; row + 8 <= p.m; row += 8) tile_rows<8>(p, row);
  }
  for (; row + 4 <= p.m; row += 4) tile_rows<4>(p, row);
  for (; row < p.m; ++row) tile_rows<1>(p, row);
}

/// Where a head's rows lie: row i of `width` floats at data + i * row.
struct HeadRows {
  const float* data = nullptr;
  std::int64_t row = 0;
  std::int64_t count = 0;
  std::int64_t width = 0;
};

/// target [padded(count, kTile), padded(width)] with zeros around.
HWY_INLINE void pack_rows(const HeadRows& rows, float* target) {
  const std::int64_t wide = padded(rows.width, kTilePadding);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    std::copy_n(rows.data + i * rows.row, rows.width, target + i * wide);
    std::fill(target + i * wide + rows.width, target + (i + 1) * wide, 0.0F);
  }
  std::fill(target + rows.count * wide, target + padded(rows.count, kTile) * wide, 0.0F);
}

/// Rows [0, 4) of `width` floats into columns [0, 4) of target [width, kTile], times `factor`. A
/// template with unqualified calls, so that the one-lane target can leave the vector code out.
template <class D>
HWY_INLINE void transpose_four(D d, const HeadRows& rows, float factor, float* target) {
  std::int64_t k = 0;
  if constexpr (HWY_TARGET != HWY_SCALAR) {
    const auto scale = hn::Set(d, factor);
    for (; k + 4 <= rows.width; k += 4) {
      const auto load = [&](std::int64_t row) HWY_ATTR {
        return hn::Mul(hn::LoadU(d, rows.data + row * rows.row + k), scale);
      };
      const auto row0 = load(0);
      const auto row1 = load(1);
      const auto row2 = load(2);
      const auto row3 = load(3);
      const auto low02 = InterleaveLower(d, row0, row2);   // 00 20 01 21
      const auto low13 = InterleaveLower(d, row1, row3);   // 10 30 11 31
      const auto high02 = InterleaveUpper(d, row0, row2);  // 02 22 03 23
      const auto high13 = InterleaveUpper(d, row1, row3);  // 12 32 13 33
      float* out = target + k * kTile;
      hn::StoreU(InterleaveLower(d, low02, low13), d, out);
      hn::StoreU(InterleaveUpper(d, low02, low13), d, out + kTile);
      hn::StoreU(InterleaveLower(d, high02, high13), d, out + 2 * kTile);
      hn::StoreU(InterleaveUpper(d, high02, high13), d, out + 3 * kTile);
    }
  }
  for (; k < rows.width; ++k) {
    for (std::int64_t i = 0; i < 4; ++i) {
      target[k * kTile + i] = rows.data[i * rows.row + k] * factor;
    }
  }
}

/// target [tiles, width, kTile]: each tile of kTile rows transposed and scaled, zeros after the
/// last.
HWY_INLINE void pack_transposed(const HeadRows& rows, float factor, float* target) {
  for (std::int64_t first = 0; first < rows.count; first += kTile) {
    float* tile = target + first * rows.width;
    const std::int64_t here = std::min(kTile, rows.count - first);
    if (here < kTile) std::fill_n(tile, rows.width * kTile, 0.0F);
    std::int64_t i = 0;
    for (; i + 4 <= here; i += 4) {
      HeadRows four = rows;
      four.data += (first + i) * rows.row;
      transpose_four(hn::CappedTag<float, 4>(), four, factor, tile + i);
    }
    for (; i < here; ++i) {
      const float* source = rows.data + (first + i) * rows.row;
      for (std::int64_t k = 0; k < rows.width; ++k) tile[k * kTile + i] = source[k] * factor;
    }
  }
}

/// target[i] = source[i] * factor.
HWY_INLINE void unpack_row(const float* source, std::int64_t width, float factor, float* target) {
  for_lanes(width, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, source + i), hn::Set(d, factor)), d, target + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#endif  // QUADRILLE_HOST_TILE_INL_H_
