// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Puts the sequences of one micro-batch where the device reads them: which ones follows from the
// step, the rank and the micro-batch alone.

#include <cstdint>
#include <vector>

#include "quadrille/data/batch.h"
#include "train/rank_base.h"

namespace quadrille::internal {

class BatchLoader {
 public:
  /// `base` outlives the loader.
  explicit BatchLoader(RankBase& base);

  /// Slot in the global batch of the micro-batch's first sequence.
  [[nodiscard]] std::int64_t first_slot(std::int64_t micro_batch) const;
  /// Training step `step` counts from 0.
  void load_train(std::int64_t step, std::int64_t micro_batch);
  /// How many targets count; with 0 (rows past the end of the validation part) nothing is loaded.
  [[nodiscard]] std::int64_t load_validation(std::int64_t batch, std::int64_t micro_batch);
  [[nodiscard]] std::int64_t validation_batches() const { return reader_.validation_batches(); }

 private:
  void upload();

  RankBase& base_;
  BatchReader reader_;
  std::vector<std::int32_t> host_tokens_;
  std::vector<std::int32_t> host_targets_;
};

}  // namespace quadrille::internal
