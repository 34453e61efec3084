// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trains a model of the caller's own: the program does the forward and backward pass with
// operations of kernels/ (or launched on the stream), the runtime does the rest as for its own
// transformer: data, gradient buckets over the ranks, scaling by the global token count, clipping,
// AdamW, metrics, checkpoints, resuming, agreement and stopping. One per rank, used by its thread.
//
// In this order: create, add_parameter for each, start; then, while begin_step() says so:
// next_batch() as often as micro_batches() says, with ready() for each parameter after each
// backward pass, and step(); then finish. Another order is an error that says what is wrong. An
// error stays: every later call returns it, so a rank that overlooks one cannot train on.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "quadrille/base/result.h"
#include "quadrille/comm/world.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"
#include "quadrille/train/trainer.h"

namespace quadrille {

/// A trained tensor, fp32, whole on every rank.
struct CustomParameter {
  std::string name;  ///< Unique; names it in checkpoints and errors, and keys its random numbers.
  Shape shape;
  bool decayed = false;          ///< Weight decay applies: matrices and embeddings, usually.
  double initial_deviation = 0;  ///< Normal(0, this), the same on every rank ...
  double initial_constant = 0;   ///< ... or this, where the deviation is 0.
  int contributions = 1;         ///< ready() calls per micro-batch: 2 where two places use it.
};

/// Which parameter; made by add_parameter alone.
class ParameterHandle {
 public:
  ParameterHandle() = default;

 private:
  friend class CustomTrainer;
  explicit ParameterHandle(int index) : index_(index) {}
  int index_ = -1;
};

/// One micro-batch on the device. The views stay the same over the run; their contents change.
struct CustomBatch {
  TensorView tokens;            ///< [B, T] int32
  TensorView targets;           ///< [B, T] int32; -1 does not count (validation only).
  TensorView loss_sum;          ///< [1] float64: add this rank's loss here; zero at a step's start.
  std::int64_t first_slot = 0;  ///< Of its first sequence in the global batch.
};

/// What a step's loss was on this rank: a sum and what it is over. Only the runtime divides.
struct CustomLoss {
  double sum = 0;
  std::int64_t tokens = 0;  ///< Targets that counted, of all micro-batches of this rank.
};

class CustomTrainer {
 public:
  /// Opens data and memory as planned. Collective. `options` and what it points at outlive this.
  /// Errors: those of Corpus::open, kInvalid where the plan is for another number of ranks.
  [[nodiscard]] static Result<std::unique_ptr<CustomTrainer>> create(World& world,
                                                                     const TrainerOptions& options);
  ~CustomTrainer();

  /// Declares a parameter, before start(); every rank the same ones in the same order, the first
  /// that forward uses first (its gradient is ready last). Errors: kInvalid for a name or shape
  /// that cannot be, for a second one of that name, and after start(); each names the parameter.
  [[nodiscard]] Result<ParameterHandle> add_parameter(CustomParameter parameter);

  /// How to evaluate: adds the loss of one batch to its loss_sum, and changes nothing else. Needed
  /// before start() where the job sets training.evaluate_every.
  void set_evaluation(std::function<Result<void>(const CustomBatch&)> evaluation);

  /// Gives the parameters memory and values: initial ones, or those of the checkpoint that the run
  /// resumes from, with moments and step. Collective. Errors: kInvalid where ranks have declared
  /// different parameters, or the checkpoint has others; kExhausted, kNotFound.
  [[nodiscard]] Result<void> start();

  // From start() on.
  /// Changes in step() alone: a checkpoint may be reading it meanwhile.
  [[nodiscard]] TensorView value(ParameterHandle parameter) const;
  /// Zero at the start of a step; add to it, then say ready(). It is the gradient of the *sum* of
  /// the losses; after step() its contents are unspecified.
  [[nodiscard]] TensorView gradient(ParameterHandle parameter) const;

  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] Stream& stream();
  /// For activations and workspace: leases end before the trainer does.
  [[nodiscard]] Pool& pool();
  [[nodiscard]] std::int64_t micro_batches() const;  ///< Of a step on this rank.
  [[nodiscard]] std::int64_t tokens() const;  ///< Targets in all of them; each counts in training.

  /// True where there is another step: zeroes gradients and loss_sum. False after the last one, or
  /// when all ranks have agreed to stop.
  [[nodiscard]] Result<bool> begin_step();
  /// The step's next micro-batch: other samples on each rank, each sample of the epoch once. A
  /// program with data of its own calls it never; its losses are still over at most the job's
  /// tokens. Errors: kInvalid for one more than micro_batches().
  [[nodiscard]] Result<CustomBatch> next_batch();
  /// This micro-batch's gradient of the parameter is complete; once per declared contribution.
  /// The last one of a bucket reduces it (collective). Errors: kInternal for one too many, naming
  /// the parameter; those of all_reduce.
  [[nodiscard]] Result<void> ready(ParameterHandle parameter);
  /// loss_sum as this rank has it now; waits for the stream.
  [[nodiscard]] Result<double> loss_sum();
  /// Ends the step: scales by the global token count, clips, updates, writes the row of metrics,
  /// evaluates and saves where that is due, agrees. Collective. Errors: kInternal naming the
  /// parameters that never became ready; kInvalid for a token count that this rank cannot have;
  /// kAborted for a loss or gradient that is not finite (the state before the step is kept).
  [[nodiscard]] Result<void> step(const CustomLoss& loss);

  /// Waits until the last checkpoint is on the disk; saves one where the last step has none.
  /// Collective.
  [[nodiscard]] Result<TrainingOutcome> finish();

 private:
  struct State;
  explicit CustomTrainer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
