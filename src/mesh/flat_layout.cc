// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/mesh/flat_layout.h"

#include <algorithm>
#include <set>

namespace quadrille {

namespace {

/// Whether a tensor may share a bucket with the one before it.
bool joins(const FlatTensor& former, const FlatTensor& tensor, int sharding) {
  const bool lone = former.contributions > 1 || tensor.contributions > 1;
  return !(sharding >= 2 && lone) && !(sharding >= 3 && former.layer != tensor.layer);
}

}  // namespace

FlatLayout::FlatLayout(std::span<const FlatTensor> tensors, const FlatOptions& options) {
  const std::int64_t most = options.bucket.count() / static_cast<std::int64_t>(sizeof(float));
  std::int64_t first = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t length = aligned(tensors[i].elements);
    const bool fits = i > 0 && joins(tensors[i - 1], tensors[i], options.sharding) &&
                      buckets_.back().length + length <= most;
    if (!fits) buckets_.push_back({first, 0, false});
    places_.push_back({static_cast<int>(buckets_.size()) - 1, first, tensors[i].elements});
    buckets_.back().length += length;
    buckets_.back().stays |= tensors[i].contributions > 1;
    first += length;
  }
}

std::int64_t FlatLayout::elements() const {
  return buckets_.empty() ? 0 : buckets_.back().first + buckets_.back().length;
}

Extent FlatLayout::slice(int bucket, int rank, int ranks) const {
  const FlatBucket& whole = buckets_[static_cast<std::size_t>(bucket)];
  const Extent shard = shard_extent(whole.length, rank, ranks);
  return {whole.first + shard.first, shard.length};
}

std::int64_t FlatLayout::place_in_shard(int bucket, int rank, int ranks) const {
  std::int64_t place = 0;
  for (int before = 0; before < bucket; ++before) {
    place += aligned(slice(before, rank, ranks).length);
  }
  return place;
}

std::vector<FlatPiece> FlatLayout::pieces(int rank, int ranks) const {
  std::vector<FlatPiece> pieces;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const FlatPlace& place = places_[i];
    const Extent mine = slice(place.bucket, rank, ranks);
    const std::int64_t begin = std::max(place.first, mine.first);
    const std::int64_t end = std::min(place.first + place.elements, mine.first + mine.length);
    if (begin >= end) continue;
    pieces.push_back(
        {static_cast<int>(i), place.bucket, {begin - place.first, end - begin}, begin});
  }
  return pieces;
}

BucketArena lay_out_arena(const FlatLayout& layout) {
  const std::vector<FlatBucket>& buckets = layout.buckets();
  BucketArena arena{{}, std::vector<int>(buckets.size(), -1), 0};
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (!buckets[b].stays) order.push_back(b);
  }
  std::int64_t shared = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t before = i == 0 ? 0 : buckets[order[i - 1]].length;
    shared = std::max(shared, before + buckets[order[i]].length);
    if (i >= 2) arena.former[order[i]] = static_cast<int>(order[i - 2]);
  }
  arena.begin.assign(buckets.size(), 0);
  for (std::size_t i = 1; i < order.size(); i += 2) {
    arena.begin[order[i]] = shared - buckets[order[i]].length;
  }
  arena.elements = shared;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    if (!buckets[b].stays) continue;
    arena.begin[b] = arena.elements;
    arena.elements += buckets[b].length;
  }
  return arena;
}

LayerArena lay_out_layers(const FlatLayout& layout, std::span<const std::vector<int>> tensors) {
  LayerArena arena;
  std::vector<std::int64_t> lengths;
  for (const std::vector<int>& used : tensors) {
    std::set<int> buckets;
    for (const int tensor : used) {
      buckets.insert(layout.places()[static_cast<std::size_t>(tensor)].bucket);
    }
    std::int64_t length = 0;
    for (const int b : buckets) length += layout.buckets()[static_cast<std::size_t>(b)].length;
    const std::int64_t before = lengths.empty() ? 0 : lengths.back();
    arena.elements = std::max(arena.elements, before + length);
    arena.buckets.emplace_back(buckets.begin(), buckets.end());
    lengths.push_back(length);
  }
  for (std::size_t layer = 0; layer < lengths.size(); ++layer) {
    arena.begin.push_back(layer % 2 == 0 ? 0 : arena.elements - lengths[layer]);
  }
  return arena;
}

}  // namespace quadrille
