// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Interprets one rank's Program for one optimizer step: a switch over instruction kinds. What a
// kind means is in the rooms below; when it runs is in the Program; nothing else decides.

#include <cstdint>

#include "quadrille/base/result.h"
#include "quadrille/observe/stopwatch.h"
#include "quadrille/schedule/program.h"
#include "train/batch_loader.h"
#include "train/layout_trace.h"
#include "train/rank_state.h"
#include "train/step_update.h"

namespace quadrille::internal {

class Executor {
 public:
  explicit Executor(RankState& state);

  /// Trains step `step` (from 1). Errors: those of the collectives; kInvalid for a loss or gradient
  /// that is not finite, naming the first bad tensor; parameters and moments are then those of step
  /// - 1.
  [[nodiscard]] Result<StepFigures> train_step(std::int64_t step);

  /// Mean loss over the first evaluate_batches global batches of the validation samples.
  /// Collective.
  [[nodiscard]] Result<double> evaluate();

  [[nodiscard]] const Stopwatch& watch() const { return watch_; }

  /// From now on every step gives what it computes to `trace`, which outlives this.
  void set_trace(RankTrace& trace) { trace_ = &trace; }

 private:
  [[nodiscard]] Result<void> run(const Instruction& instruction);
  void load_batch(std::int64_t micro_batch);
  /// A layer with its parameters at hand.
  [[nodiscard]] Result<void> forward(std::int64_t layer);
  [[nodiscard]] Result<void> backward(std::int64_t layer);
  [[nodiscard]] Result<void> acquire(std::int64_t layer);
  [[nodiscard]] Result<void> contributed(int parameter);
  [[nodiscard]] Result<void> optimizer_step();
  /// The mean of loss_sum over `local_count` tokens here and the other ranks' elsewhere.
  [[nodiscard]] Result<LossSum> global_loss(std::int64_t local_count, const char* place);
  /// Which tensor is not finite: parameters first, then this rank's activations in forward order.
  [[nodiscard]] Result<std::string> first_bad_tensor();
  [[nodiscard]] Result<std::string> first_bad_activation();
  /// What is wrong with the first activation of a layer that is not finite; empty: nothing.
  [[nodiscard]] Result<std::string> bad_activation_of(std::int64_t layer, std::int64_t micro_batch);

  RankState& state_;
  BatchLoader loader_;
  LayerContext context_;
  Stopwatch watch_;
  std::int64_t step_ = 0;
  StepFigures figures_;
  RankTrace* trace_ = nullptr;
};

}  // namespace quadrille::internal
