// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one rank holds while it trains, whatever the model is: data, memory, the tensors that are
// trained with their gradients in buckets and their moments, the batch, the saver. The
// transformer's state and a custom trainer's stand on it. All tensor memory comes from one pool
// whose limit is the plan's.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/comm/gradient_buckets.h"
#include "quadrille/comm/world.h"
#include "quadrille/data/corpus.h"
#include "quadrille/mesh/piece.h"
#include "quadrille/optim/optimizer.h"
#include "quadrille/train/trainer.h"

namespace quadrille::internal {

/// A parameter as training sees it; the views are there once it is bound.
struct TrainedTensor {
  std::string name;
  Shape shape;
  bool decayed = false;
  int contributions = 1;     ///< Of each micro-batch to its gradient.
  std::int64_t layer = 0;    ///< Whose backward completes its gradient.
  bool overwritten = false;  ///< By the first contribution of a step.
  bool partial = false;      ///< Its gradient is a sum over the tensor axis as well.
  TensorPiece piece;         ///< Of the whole: what this rank has; `shape` is its own.
  Shape whole;               ///< Shape of the whole.
  TensorView value;          ///< Empty where ranks keep slices alone.
  TensorView gradient;

  /// The ranks of the tensor axis have pieces of it.
  [[nodiscard]] bool is_sharded() const { return piece.elements() != whole.elements(); }
};

/// Members are destroyed from the last to the first: leases before their pool.
struct RankBase {
  const Plan* plan = nullptr;
  World* world = nullptr;
  TrainerOptions options;
  TensorShare tensor_share;              ///< This rank's place on the tensor axis.
  Communicator* data_group = nullptr;    ///< Ranks that have the same pieces and other sequences.
  Communicator* tensor_group = nullptr;  ///< Ranks that have the same sequences.
  std::unique_ptr<Corpus> corpus;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Pool> pool;
  Lease parameter_lease;               ///< All values, or this rank's slices of them (stage 3).
  std::vector<TrainedTensor> tensors;  ///< In the order of their declaration.
  std::unique_ptr<GradientBuckets> buckets;
  std::vector<int> entry_of_tensor;  ///< Index in `tensors` to bucket entry.
  /// What this rank updates, where the ranks have divided it: pieces of bucket entries, in the
  /// order of the optimizer's tensors. Empty where every rank updates all.
  std::vector<FlatPiece> pieces;
  std::unique_ptr<AdamWOptimizer> optimizer;
  Lease batch_lease;
  TensorView tokens;    ///< [B, T]
  TensorView targets;   ///< [B, T]
  TensorView loss_sum;  ///< [1] float64
  std::unique_ptr<CheckpointSaver> saver;
  Seconds checkpoint_wait;  ///< Of this step's update, for a checkpoint to have read what changes.

  /// Stage of parallel.sharding; ranks that are alone have nothing to divide.
  [[nodiscard]] int sharding() const {
    return plan->mesh.data == 1 ? 0 : static_cast<int>(plan->job.parallel.sharding);
  }
  [[nodiscard]] bool is_first() const { return world->rank() == Rank{0}; }
  /// The tensor is another rank's too, on the tensor axis; the first of them speaks for all.
  [[nodiscard]] bool speaks_for(const TrainedTensor& tensor) const {
    return tensor_share.index == 0 || tensor.is_sharded();
  }
  /// Sequences of one step on this rank.
  [[nodiscard]] std::int64_t share() const { return plan->micro_batch * plan->micro_batches; }
};

/// All of a tensor that no axis shards.
[[nodiscard]] TensorPiece whole_piece(const Shape& shape);

/// Corpus, stream, pool and the batch. No communication. Errors: those of Corpus::open, kExhausted.
[[nodiscard]] Result<void> open_base(RankBase& base, World& world, const TrainerOptions& options);

/// One communicator for each axis that has several ranks, before there are parameters. Collective.
[[nodiscard]] Result<void> join_axes(RankBase& base);

/// Gradient buckets, values and moments in their layout, and the saver. Collective.
/// `backward_order` has every index of `tensors` once, as backward completes them.
[[nodiscard]] Result<void> bind_training(RankBase& base, std::span<const int> backward_order);

/// This rank's slice of the values of a bucket, one-dimensional.
[[nodiscard]] TensorView own_values(const RankBase& base, int bucket);

/// Every rank's slices of the values reach every rank. Collective; nothing to do where each rank
/// has all, or keeps its own alone.
[[nodiscard]] Result<void> gather_values(RankBase& base);
/// Those of one bucket.
[[nodiscard]] Result<void> gather_values(RankBase& base, int bucket);

/// What is whole of a value, or this rank's part, as a checkpoint loads it.
[[nodiscard]] CheckpointTensor value_to_load(const RankBase& base, std::size_t tensor);
/// Takes over a whole value as far as this rank keeps it.
void write_value(RankBase& base, std::size_t tensor, std::span<const float> values);

/// The values of a piece of this rank's slices.
[[nodiscard]] TensorView own_piece(const RankBase& base, const FlatPiece& piece);
/// Which of `tensors` it is a piece of.
[[nodiscard]] std::size_t tensor_of(const RankBase& base, const FlatPiece& piece);

/// Values and both moments as this rank has them, by their names in a checkpoint.
[[nodiscard]] std::vector<CheckpointTensor> checkpoint_tensors(const RankBase& base);
/// The same with nothing of what another rank saves.
[[nodiscard]] std::vector<CheckpointTensor> tensors_to_save(const RankBase& base);

/// One contribution to the gradient of `tensors[index]` is complete.
[[nodiscard]] Result<void> contribute(RankBase& base, int index);

/// Where this run's checkpoints are.
[[nodiscard]] std::string checkpoint_directory(const Plan& plan, const std::string& run_directory);

/// One rank's failure before the first step becomes the failure of all. Collective.
[[nodiscard]] Result<void> agree_on(World& world, const Result<void>& mine);

/// The device's loss sum is zero again.
void clear_loss(RankBase& base);
/// How many elements of `view` are NaN or infinite.
[[nodiscard]] Result<std::int64_t> count_nonfinite(RankBase& base, const TensorView& view);
/// What the lowest rank of the group has found; empty where none has. Collective.
[[nodiscard]] Result<std::string> first_found(Communicator& group, const std::string& mine);
/// The first parameter with such an element on any rank, in words, the same on all; nothing where
/// all are finite. Collective.
[[nodiscard]] Result<std::optional<std::string>> first_bad_value(RankBase& base);

}  // namespace quadrille::internal
