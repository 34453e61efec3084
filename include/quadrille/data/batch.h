// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// From a corpus to the two arrays a step uploads: inputs and targets of B sequences. Which samples
// they are depends on step and slot alone, so however a global batch is cut into micro-batches and
// ranks, slot s of step n is the same text. Const and safe from any number of threads.

#include <cstdint>
#include <span>

#include "quadrille/config/job_spec.h"
#include "quadrille/data/corpus.h"

namespace quadrille {

/// Host arrays of one batch, row-major: [B, T] each, of equal size. Target t of a row is input
/// t + 1 of the text.
struct BatchArrays {
  std::span<std::int32_t> tokens;
  std::span<std::int32_t> targets;
};

/// A target that does not count in a loss.
inline constexpr std::int32_t kIgnoredTarget = -1;

class BatchReader {
 public:
  /// The corpus outlives the reader and was opened from the same job.
  BatchReader(const Corpus& corpus, const JobSpec& job);

  /// Slots first_slot, first_slot + 1, ... of training step `step` (from 0); as many as the arrays
  /// hold, all below the global batch.
  void fill_train(std::int64_t step, std::int64_t first_slot, const BatchArrays& out) const;

  /// Slots of validation batch `batch` (from 0): sample batch * global_batch + slot of the
  /// validation part, in its order. A slot past its end has zeros for tokens and kIgnoredTarget.
  void fill_validation(std::int64_t batch, std::int64_t first_slot, const BatchArrays& out) const;

  /// How many batches an evaluation has: training.evaluate_batches, or fewer where the validation
  /// part ends before (its last batch may be partial); 0 without one.
  [[nodiscard]] std::int64_t validation_batches() const { return validation_batches_; }

 private:
  [[nodiscard]] std::int64_t rows(const BatchArrays& out) const;

  const Corpus& corpus_;
  SampleOrderFunction order_;
  std::int64_t sequence_;
  std::int64_t global_batch_;
  std::int64_t validation_batches_;
};

}  // namespace quadrille
