// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Gradients in flat buckets, reduced fused. Parameters are laid out in the order in which backward
// completes them; a bucket is reduced when every declared contribution to all of its parameters has
// arrived. Life of a bucket: filling -> ready -> in flight -> done. A late contribution is an
// error, not a lost gradient. Source: Li et al. 2020, "PyTorch Distributed", section 3.2.3
// (bucketing).

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quadrille/comm/communicator.h"

namespace quadrille {

struct GradientEntry {
  std::string name;
  Shape shape;
  int contributions = 1;  ///< Per micro-batch: 2 for a tied embedding (head and lookup).
};

struct GradientBucketOptions {
  Communicator* group = nullptr;  ///< The data axis (times context, later).
  Stream* stream = nullptr;
  Pool* pool = nullptr;
  Bytes bucket = Bytes(4 << 20);
};

class GradientBuckets {
 public:
  /// `entries` in the order in which backward completes them. Collective over the group.
  [[nodiscard]] static Result<std::unique_ptr<GradientBuckets>> create(
      const GradientBucketOptions& options, std::span<const GradientEntry> entries);
  ~GradientBuckets();

  [[nodiscard]] int entries() const;
  [[nodiscard]] int buckets() const;
  /// The gradient of entry `index` [its shape], inside its bucket.
  [[nodiscard]] TensorView gradient(int index) const;
  /// All gradients as flat buckets, for norms.
  [[nodiscard]] std::vector<TensorView> flat() const;

  /// Zeroes every gradient and expects `micro_batches` times the declared contributions.
  void begin_step(std::int64_t micro_batches);
  /// One contribution to entry `index` is complete. Reduces its bucket when it was the last one
  /// missing. Errors: those of all_reduce; kInternal for a contribution that was not declared,
  /// naming it.
  [[nodiscard]] Result<void> contribute(int index);
  /// Every bucket is done. Errors: kInternal naming the parameters that never became ready.
  [[nodiscard]] Result<void> finish();

 private:
  struct State;
  explicit GradientBuckets(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
