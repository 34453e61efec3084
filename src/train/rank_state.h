// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything one rank holds while it trains, built once from the Plan. All tensor memory comes from
// one pool whose limit is the plan's.

#include <memory>
#include <vector>

#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/comm/gradient_buckets.h"
#include "quadrille/comm/world.h"
#include "quadrille/data/corpus.h"
#include "quadrille/model/transformer.h"
#include "quadrille/optim/optimizer.h"
#include "quadrille/train/trainer.h"
#include "train/activations.h"

namespace quadrille::internal {

/// Members are destroyed from the last to the first: leases before their pool.
struct RankState {
  const Plan* plan = nullptr;
  World* world = nullptr;
  TrainerOptions options;
  std::unique_ptr<Corpus> corpus;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Pool> pool;
  Lease parameter_lease;
  std::unique_ptr<Transformer> model;
  std::unique_ptr<GradientBuckets> buckets;
  std::vector<int> entry_of_parameter;  ///< Parameter index to bucket entry.
  std::unique_ptr<AdamWOptimizer> optimizer;
  Activations activations;
  Lease batch_lease;
  TensorView tokens;    ///< [B, T]
  TensorView targets;   ///< [B, T]
  TensorView loss_sum;  ///< [1] float64
  std::unique_ptr<CheckpointSaver> saver;

  [[nodiscard]] bool is_first() const { return world->rank() == Rank{0}; }
  /// Sequences of one step on this rank.
  [[nodiscard]] std::int64_t share() const { return plan->micro_batch * plan->micro_batches; }
};

/// The part that one rank can fail in alone: files, model, parameters, activations. No
/// communication. Errors: those of Corpus::open, kExhausted.
[[nodiscard]] Result<std::unique_ptr<RankState>> build_local(World& world,
                                                             const TrainerOptions& options);
/// The part that follows once every rank has the first: gradient buckets (collective), moments,
/// saver.
[[nodiscard]] Result<void> build_shared(RankState& state);

/// Parameters and both moments, by their names in a checkpoint.
[[nodiscard]] std::vector<CheckpointTensor> checkpoint_tensors(const RankState& state);

/// Where this run's checkpoints are.
[[nodiscard]] std::string checkpoint_directory(const Plan& plan, const std::string& run_directory);

}  // namespace quadrille::internal
