// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors one after the other in flat buckets: how gradients, parameters and moments lie in memory.
// A bucket is what one collective moves, and what is sharded: rank r of n has shard_extent(length,
// r, n) of every bucket, which may begin and end inside tensors. The planner, the gradient buckets,
// the optimizer and checkpoints all ask this one layout.

#include <cstdint>
#include <span>
#include <vector>

#include "quadrille/base/units.h"
#include "quadrille/mesh/placement.h"

namespace quadrille {

/// A tensor as the layout sees it.
struct FlatTensor {
  std::int64_t elements = 0;
  std::int64_t layer = 0;  ///< Whose backward completes its gradient.
  int contributions = 1;   ///< To its gradient, per micro-batch.
};

/// How a sharding stage wants its buckets. From stage 2 on a bucket's memory is used again once it
/// is reduced, so a gradient that is added to from several places of the backward pass has a bucket
/// of its own that stays. In stage 3 a layer's parameters are gathered, so buckets end with layers.
struct FlatOptions {
  Bytes bucket = Bytes(4 << 20);  ///< A bucket takes tensors up to this; a larger one is alone.
  int sharding = 0;
};

/// Where a tensor lies.
struct FlatPlace {
  int bucket = 0;
  std::int64_t first = 0;  ///< Element of the whole.
  std::int64_t elements = 0;
};

/// Elements [first, first + length) of the whole.
struct FlatBucket {
  std::int64_t first = 0;
  std::int64_t length = 0;
  bool stays = false;  ///< Added to from several places: its memory is not used again.
};

/// A contiguous part of one tensor that lies in one rank's slice of a bucket.
struct FlatPiece {
  int tensor = 0;
  int bucket = 0;
  Extent of_tensor;        ///< Elements of the flattened tensor.
  std::int64_t first = 0;  ///< Element of the whole.
};

class FlatLayout {
 public:
  /// Every tensor starts at a multiple of this many elements: 64 bytes of fp32.
  static constexpr std::int64_t kAligned = 16;
  [[nodiscard]] static constexpr std::int64_t aligned(std::int64_t elements) {
    return (elements + kAligned - 1) / kAligned * kAligned;
  }

  FlatLayout() = default;
  /// Tensors of fp32, in this order.
  FlatLayout(std::span<const FlatTensor> tensors, const FlatOptions& options);

  [[nodiscard]] std::int64_t elements() const;  ///< Of the whole, padding included.
  [[nodiscard]] const std::vector<FlatPlace>& places() const { return places_; }
  [[nodiscard]] const std::vector<FlatBucket>& buckets() const { return buckets_; }

  /// A rank's slice of a bucket, in elements of the whole.
  [[nodiscard]] Extent slice(int bucket, int rank, int ranks) const;
  /// A rank's slices one after the other, each aligned: where in them that of `bucket` begins. For
  /// the number of buckets: how long all are.
  [[nodiscard]] std::int64_t place_in_shard(int bucket, int rank, int ranks) const;
  /// The parts of tensors in a rank's slices, in the order of the whole; padding is in none.
  [[nodiscard]] std::vector<FlatPiece> pieces(int rank, int ranks) const;

 private:
  std::vector<FlatPlace> places_;
  std::vector<FlatBucket> buckets_;
};

/// Memory that buckets share which are filled and reduced one after the other: those at even places
/// of the order lie at its start, those at odd places at its end, so that one is reduced while the
/// next one fills. Buckets that stay lie behind it.
struct BucketArena {
  std::vector<std::int64_t> begin;  ///< Of each bucket, in elements.
  std::vector<int> former;          ///< The bucket whose memory this one takes over, or -1.
  std::int64_t elements = 0;
};
[[nodiscard]] BucketArena lay_out_arena(const FlatLayout& layout);

/// Memory for the buckets of two neighbouring layers, where a rank gathers what it is about to use:
/// even layers lie at its start, odd ones at its end.
struct LayerArena {
  std::vector<std::vector<int>> buckets;  ///< Of each layer, ascending.
  std::vector<std::int64_t> begin;        ///< Of each layer, in elements; its buckets follow.
  std::int64_t elements = 0;
};
/// `tensors` of the layout that each layer uses; a tensor may be in several.
[[nodiscard]] LayerArena lay_out_layers(const FlatLayout& layout,
                                        std::span<const std::vector<int>> tensors);

}  // namespace quadrille
