// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where buckets lie in memory, by sharding stage. In stages 0 and 1 each has a place of its own;
// from stage 2 on they share an arena and their sums go to the rank's shard.

#include <vector>

#include "quadrille/comm/gradient_buckets.h"

namespace quadrille::internal {

class BucketMemory {
 public:
  /// Leases it. Collective over the group.
  [[nodiscard]] static Result<BucketMemory> create(const GradientBucketOptions& options,
                                                   const FlatLayout& layout);

  [[nodiscard]] TensorView bucket(int index) const;
  /// Elements [first, first + elements) of the whole, which lie in this bucket.
  [[nodiscard]] TensorView inside(int bucket, std::int64_t first, Shape shape) const;
  /// The rank's slice of a bucket's sums, once reduced: in place, or in the shard.
  [[nodiscard]] TensorView slice(int bucket) const;
  /// The part of the bucket itself that is this rank's.
  [[nodiscard]] TensorView slice_in_place(int bucket) const;

  /// Buckets share memory.
  [[nodiscard]] bool is_shared() const { return options_.sharding >= 2; }
  /// The bucket whose memory this one takes over; -1 for none.
  [[nodiscard]] int former(int bucket) const;
  /// The bucket that takes over this one's memory; -1 for none.
  [[nodiscard]] int successor(int bucket) const;

 private:
  GradientBucketOptions options_;
  FlatLayout layout_;
  BucketArena arena_;
  Lease lease_;
  Lease shard_;
};

}  // namespace quadrille::internal
