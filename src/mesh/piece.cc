// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/mesh/piece.h"

#include <algorithm>

#include "quadrille/base/check.h"

namespace quadrille {
namespace {

std::int64_t product(std::span<const std::int64_t> extents) {
  std::int64_t all = 1;
  for (const std::int64_t extent : extents) {
    QD_CHECK(extent >= 0 && !__builtin_mul_overflow(all, extent, &all));
  }
  return all;
}

void add(std::vector<RunBlock>& blocks, const RunBlock& block) {
  if (block.elements() > 0) blocks.push_back(block);
}

}  // namespace

bool may_overlap(const RunBlock& a, const RunBlock& b) {
  if (a.elements() == 0 || b.elements() == 0) return false;
  if (a.end() <= b.first || b.end() <= a.first) return false;
  if (a.count == 1 || b.count == 1 || a.stride != b.stride) return true;
  // Columns of the same rows: apart where their columns are.
  const std::int64_t column_a = a.first % a.stride;
  const std::int64_t column_b = b.first % b.stride;
  return column_a < column_b + b.length && column_b < column_a + a.length;
}

TensorPiece TensorPiece::whole(std::span<const std::int64_t> shape) {
  TensorPiece piece;
  piece.shape_.assign(shape.begin(), shape.end());
  const std::int64_t elements = product(shape);
  add(piece.blocks_, {0, elements, elements, 1});
  return piece;
}

TensorPiece TensorPiece::of(std::span<const std::int64_t> shape, const AxisPlacement& placement,
                            int index, int count) {
  if (!placement.is_sharded() || count == 1) return whole(shape);
  const auto dimension = static_cast<std::size_t>(placement.dimension);
  QD_CHECK(dimension < shape.size());
  const std::int64_t rows = product(shape.first(dimension));
  const std::int64_t inner = product(shape.subspan(dimension + 1));
  const std::int64_t row = shape[dimension] * inner;
  const std::vector<Extent> extents = shard_extents(shape[dimension], placement.cut, index, count);
  TensorPiece piece;
  piece.shape_.assign(shape.begin(), shape.end());
  piece.shape_[dimension] = 0;
  for (const Extent& extent : extents) piece.shape_[dimension] += extent.length;
  if (extents.size() == 1) {
    const Extent extent = extents.front();
    add(piece.blocks_, {extent.first * inner, extent.length * inner, row, rows});
    return piece;
  }
  // The parts of a row stand beside each other, so rows go one by one.
  for (std::int64_t r = 0; r < rows; ++r) {
    for (const Extent& extent : extents) {
      add(piece.blocks_, {r * row + extent.first * inner, extent.length * inner, row, 1});
    }
  }
  return piece;
}

std::int64_t TensorPiece::elements() const { return product(shape_); }

bool TensorPiece::is_contiguous() const {
  std::int64_t runs = 0;
  for (const RunBlock& block : blocks_) runs += block.count;
  return runs <= 1;
}

TensorPiece TensorPiece::part(std::int64_t first, std::int64_t count) const {
  QD_CHECK(first >= 0 && count >= 0 && first + count <= elements());
  TensorPiece piece;
  piece.shape_ = {count};
  std::int64_t skip = first;
  std::int64_t left = count;
  for (const RunBlock& block : blocks_) {
    if (skip >= block.elements()) {
      skip -= block.elements();
      continue;
    }
    std::int64_t run = skip / block.length;
    std::int64_t within = skip % block.length;
    skip = 0;
    while (left > 0 && run < block.count) {
      // Up to the first whole run, then all whole runs at once, then what is left of one.
      const bool whole_runs = within == 0 && left >= block.length;
      const std::int64_t runs = whole_runs ? std::min(block.count - run, left / block.length) : 1;
      const std::int64_t length = whole_runs ? block.length : std::min(block.length - within, left);
      add(piece.blocks_, {block.first + run * block.stride + within, length,
                          runs == 1 ? length : block.stride, runs});
      left -= length * runs;
      run += runs;
      within = 0;
    }
    if (left == 0) break;
  }
  return piece;
}

}  // namespace quadrille
