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

/// One tensor to train.
struct OptimizedTensor {
  std::string name;
  TensorView value;
  TensorView gradient;  ///< Sum over the step's tokens of all ranks once reduced.
  bool decayed = false;
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

class AdamWOptimizer {
 public:
  /// Leases both moments (zero, each tensor's padded to 64 bytes; tagged optimizer) and 8 bytes a
  /// tensor for the norm (workspace) from the pool.
  [[nodiscard]] static Result<std::unique_ptr<AdamWOptimizer>> create(
      const TrainingSpec& training, Stream& stream, Pool& pool,
      std::vector<OptimizedTensor> tensors);
  ~AdamWOptimizer();  ///< Waits for its stream, which must outlive it: the moments may be in use.

  /// Norm, clip, update. Changes nothing when the norm is not finite.
  /// Errors: kInvalid naming the first tensor with a NaN or infinite gradient.
  [[nodiscard]] Result<OptimizerOutcome> step(const OptimizerStep& step);

  /// The moments of tensor `index`, for checkpoints: `<name>` shaped like it.
  [[nodiscard]] TensorView first_moment(int index) const;
  [[nodiscard]] TensorView second_moment(int index) const;

 private:
  struct State;
  void update(const OptimizerStep& step, double gradient_scale);
  explicit AdamWOptimizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
