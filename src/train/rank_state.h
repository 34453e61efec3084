// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a rank holds while it trains the transformer, built once from the Plan.

#include <memory>

#include "quadrille/model/transformer.h"
#include "train/activations.h"
#include "train/parameter_residency.h"
#include "train/rank_base.h"

namespace quadrille::internal {

struct RankState : RankBase {
  std::unique_ptr<Transformer> model;  ///< Its parameter i is `tensors[i]`.
  ParameterResidency residency;  ///< A layer's values are at hand between acquire and release.
  Activations activations;
  Lease rounding_lease;
  Lease rounded_lease;         ///< The model's rounded values.
  kernels::Rounding rounding;  ///< What the job's precision means on this host.
};

/// The part that one rank can fail in alone: files, model, parameters, activations. No
/// communication. Errors: those of Corpus::open, kExhausted.
[[nodiscard]] Result<std::unique_ptr<RankState>> build_local(World& world,
                                                             const TrainerOptions& options);
/// The part that follows once every rank has the first: gradient buckets (collective), moments,
/// saver.
[[nodiscard]] Result<void> build_shared(RankState& state);

/// Makes the rounded values those of the values as they are now; nothing in fp32.
void round_values(RankState& state);

}  // namespace quadrille::internal
