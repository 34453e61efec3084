// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Gradients in flat buckets, reduced fused. Parameters are laid out in the order in which backward
// completes them; a bucket is reduced when every declared contribution to all of its parameters has
// arrived. Life of a bucket: filling -> ready -> in flight -> done. A late contribution is an
// error, not a lost gradient.
//
// What a reduction leaves depends on the sharding stage. 0: every sum on every rank. 1: each rank
// has the sums of its own slice of every bucket, in place. 2 and 3: each micro-batch's sums of the
// slice are added to the rank's shard, and the bucket's memory is used again by a later bucket.
// Source: Li et al. 2020, "PyTorch Distributed", section 3.2.3 (bucketing); Rajbhandari et al.
// 2020, "ZeRO", section 5 (sharding).

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quadrille/comm/communicator.h"
#include "quadrille/mesh/flat_layout.h"

namespace quadrille {

struct GradientEntry {
  std::string name;
  Shape shape;
  int contributions = 1;   ///< Per micro-batch: 2 for a tied embedding (head and lookup).
  std::int64_t layer = 0;  ///< Whose backward completes it.
  /// The first contribution overwrites the gradient instead of adding to it (that of the step, from
  /// stage 2 on of each micro-batch), so nothing need begin with zeros there: one pass over memory
  /// less.
  bool overwritten = false;
  bool partial = false;  ///< Over the tensor axis too: each of its ranks has a part of the sum.
};

struct GradientBucketOptions {
  Communicator* group = nullptr;  ///< The data axis (times context, later).
  Stream* stream = nullptr;
  Pool* pool = nullptr;
  Bytes bucket = Bytes(4 << 20);
  int sharding = 0;                      ///< Stage 0 to 3.
  Communicator* tensor_group = nullptr;  ///< The tensor axis; null where it has one rank.
};

class GradientBuckets {
 public:
  /// `entries` in the order in which backward completes them. Collective over the group.
  [[nodiscard]] static Result<std::unique_ptr<GradientBuckets>> create(
      const GradientBucketOptions& options, std::span<const GradientEntry> entries);
  ~GradientBuckets();

  [[nodiscard]] int entries() const;
  [[nodiscard]] int buckets() const;
  [[nodiscard]] const FlatLayout& layout() const;
  /// Where contributions to entry `index` are added [its shape], inside its bucket. From stage 2 on
  /// it holds the gradient only until its bucket is reduced.
  [[nodiscard]] TensorView gradient(int index) const;
  /// The step's sums of a piece of this rank's slices, one-dimensional, once finish() was called.
  [[nodiscard]] TensorView reduced(const FlatPiece& piece) const;

  /// Zeroes the gradients (but those that are overwritten keep what they hold) and expects
  /// `micro_batches` times the declared contributions.
  void begin_step(std::int64_t micro_batches);
  /// One contribution to entry `index` is complete. Reduces its bucket when it was the last one
  /// missing: of the step, or of the micro-batch from stage 2 on, where contributions come micro-
  /// batch by micro-batch and about in the order of the entries. Errors: those of the collectives;
  /// kInternal for a contribution that was not declared or came out of order, naming it.
  [[nodiscard]] Result<void> contribute(int index);
  /// Every bucket is done. Errors: kInternal naming the parameters that never became ready.
  [[nodiscard]] Result<void> finish();

 private:
  struct State;
  explicit GradientBuckets(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
