// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which elements of a whole tensor a rank holds, in the order in which it holds them. Follows from
// the tensor's placement and the rank's place in the mesh; initial values, checkpoints and
// comparisons between layouts go by it, so none of them knows how a tensor is cut.

#include <cstdint>
#include <span>
#include <vector>

#include "quadrille/mesh/placement.h"

namespace quadrille {

/// `count` runs of `length` neighbouring elements, the first at `first` of the flattened whole,
/// each `stride` after the one before.
struct RunBlock {
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t stride = 0;
  std::int64_t count = 1;

  [[nodiscard]] constexpr std::int64_t elements() const { return length * count; }
  /// One after the last element.
  [[nodiscard]] constexpr std::int64_t end() const {
    return count == 0 ? first : first + (count - 1) * stride + length;
  }
  friend constexpr bool operator==(RunBlock, RunBlock) = default;
};

/// Whether they may have an element in common: never wrong where it says that they have none.
[[nodiscard]] bool may_overlap(const RunBlock& a, const RunBlock& b);

/// Calls body(first, count, in_block) for each part of [first, first + count) that lies in a run of
/// the block; `in_block` is its place in the block.
template <class Body>
void for_each_common_run(const RunBlock& block, Extent range, const Body& body) {
  const std::int64_t end = range.first + range.length;
  std::int64_t run = 0;
  if (block.count > 1 && range.first > block.first + block.length - 1) {
    run = (range.first - block.first - block.length + block.stride) / block.stride;
  }
  for (; run < block.count; ++run) {
    const std::int64_t start = block.first + run * block.stride;
    if (start >= end) return;
    const std::int64_t from = start > range.first ? start : range.first;
    const std::int64_t to = start + block.length < end ? start + block.length : end;
    if (from < to) body(from, to - from, run * block.length + from - start);
  }
}

class TensorPiece {
 public:
  TensorPiece() = default;
  [[nodiscard]] static TensorPiece whole(std::span<const std::int64_t> shape);
  /// Of shard `index` of `count` where `placement` is sharded; else whole.
  [[nodiscard]] static TensorPiece of(std::span<const std::int64_t> shape,
                                      const AxisPlacement& placement, int index, int count);

  /// Of the piece itself: that of the whole but for the sharded dimension.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] std::int64_t elements() const;
  /// The runs that it consists of, one after the other.
  [[nodiscard]] const std::vector<RunBlock>& blocks() const { return blocks_; }
  [[nodiscard]] bool is_contiguous() const;

  /// Elements [first, first + count) of this piece, as a piece of one dimension.
  [[nodiscard]] TensorPiece part(std::int64_t first, std::int64_t count) const;

  /// Calls body(in_whole, in_piece, length) for each run, in the piece's order.
  template <class Body>
  void for_each_run(const Body& body) const {
    std::int64_t in_piece = 0;
    for (const RunBlock& block : blocks_) {
      for (std::int64_t run = 0; run < block.count; ++run) {
        body(block.first + run * block.stride, in_piece, block.length);
        in_piece += block.length;
      }
    }
  }
  friend bool operator==(const TensorPiece&, const TensorPiece&) = default;

 private:
  std::vector<std::int64_t> shape_;
  std::vector<RunBlock> blocks_;
};

}  // namespace quadrille
