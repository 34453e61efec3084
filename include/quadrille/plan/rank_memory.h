// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the fullest rank of a run holds at its peak, tag by tag, from the placement of every tensor.
// The same mechanisms as step_cost.h: shape, layout, schedule, recompute; nothing per run.

#include "quadrille/plan/training_run.h"

namespace quadrille {

/// How a published figure was taken: each includes more than the one before it.
enum class MemoryMeasure : std::uint8_t { kAllocated, kReserved, kDevice };

struct MemoryConstants {
  double attention_saved = 1.0;   ///< Of the plain attention's 5 bytes per score.
  double logits_bytes = 12;       ///< Per logit on the last stage: 16 bits and fp32, and gradients.
  double fused_logits_bytes = 6;  ///< The same where the loss works in place.
  double working_layers = 1.0;    ///< Layers' worth of backward's own tensors.
  double fragmentation = 0.08;    ///< Of activations, reserved and not allocated.
  double flat_fragmentation = 0.25;  ///< Of states that a flat optimizer copies about.
  double context_bytes = 2.6e9;      ///< Driver context and libraries of a process.
  double channel_bytes = 1.2e8;      ///< Buffers of one communicator.
};

/// Bytes on one rank.
struct RankMemory {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;
  double logits = 0;
  double gathered = 0;       ///< Whole parameters and gradients of the layers at work (sharding 3).
  double fragmentation = 0;  ///< Where reserved bytes are counted.
  double device = 0;         ///< Context and communicators, where the device's bytes are counted.

  [[nodiscard]] double total() const {
    return parameters + gradients + optimizer + activations + logits + gathered + fragmentation +
           device;
  }
};

enum class RankPlace : std::uint8_t { kFullest, kLast };

/// Of a run that check_run accepts.
[[nodiscard]] RankMemory rank_memory(const TrainingRun& run, MemoryMeasure measure,
                                     RankPlace place = RankPlace::kFullest,
                                     const MemoryConstants& constants = {});

}  // namespace quadrille
