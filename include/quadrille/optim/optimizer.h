// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// AdamW over a model's parameters, with the one place where gradients are scaled: by the global
// token count and by the clip coefficient of the global norm.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/memory/pool.h"

namespace quadrille {

/// One tensor to train, or a rank's piece of one that is sharded.
struct OptimizedTensor {
  std::string name;
  TensorView value;
  TensorView gradient;  ///< Sum over the step's tokens of all ranks once reduced.
  bool decayed = false;
  std::int64_t whole =
      0;                ///< Elements of the tensor that this is a piece of; 0: this is all of it.
  bool counted = true;  ///< False where another rank has the same and adds it to the norm.
};

struct OptimizerStep {
  std::int64_t step = 1;    ///< From 1, for bias correction.
  std::int64_t tokens = 1;  ///< Global count that the gradients are divided by.
  double learning_rate = 0;
};

struct OptimizerOutcome {
  double gradient_norm = 0;  ///< Of the mean gradient, before clipping.
  double clip_coefficient = 1;
};

/// A gradient with NaN or infinite elements, as far as this rank has it.
struct NonfiniteGradient {
  std::string name;
  std::int64_t bad = 0;
  std::int64_t elements = 0;  ///< Of the whole tensor.
};
/// The error that names it.
[[nodiscard]] Error to_error(const NonfiniteGradient& gradient);

class AdamWOptimizer {
 public:
  /// Leases both moments (zero, each tensor's padded to 64 bytes; tagged optimizer) and 8 bytes a
  /// tensor for the norm (workspace) from the pool.
  [[nodiscard]] static Result<std::unique_ptr<AdamWOptimizer>> create(
      const TrainingSpec& training, Stream& stream, Pool& pool,
      std::vector<OptimizedTensor> tensors);
  ~AdamWOptimizer();  ///< Waits for its stream, which must outlive it: the moments may be in use.

  /// Norm, clip, update, where the tensors are all there is. Changes nothing when the norm is not
  /// finite. Errors: kInvalid naming the first tensor with a NaN or infinite gradient.
  [[nodiscard]] Result<OptimizerOutcome> step(const OptimizerStep& step);

  // Its parts, for ranks that have pieces and add up their sums in between.

  /// Of these gradients, in float64: not finite where an element is not.
  [[nodiscard]] Result<double> sum_of_squares();
  /// Those of the gradients here that are not finite, in order.
  [[nodiscard]] Result<std::vector<NonfiniteGradient>> nonfinite();
  /// What the sum of squares of all gradients means for the step.
  [[nodiscard]] OptimizerOutcome outcome(const OptimizerStep& step, double squares) const;
  /// Updates tensors [first, end).
  void update(const OptimizerStep& step, const OptimizerOutcome& outcome, int first, int end);

  [[nodiscard]] int tensors() const;
  /// The moments of tensor `index`, for checkpoints: `<name>` shaped like it.
  [[nodiscard]] TensorView first_moment(int index) const;
  [[nodiscard]] TensorView second_moment(int index) const;

 private:
  struct State;
  explicit AdamWOptimizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
