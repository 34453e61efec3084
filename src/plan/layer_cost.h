// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one device takes for one layer, the embedding and the head of one micro-batch.

#include "quadrille/plan/step_cost.h"

namespace quadrille::internal {

/// Seconds on the device and issues on the host.
struct PassCost {
  double seconds = 0;
  double operations = 0;

  PassCost& operator+=(const PassCost& other) {
    seconds += other.seconds;
    operations += other.operations;
    return *this;
  }
};

struct LayerCost {
  PassCost forward;
  PassCost backward;           ///< Without what is computed again.
  PassCost again;              ///< Forward work that backward repeats.
  double weight_gradient = 0;  ///< Part of backward that a zero-bubble schedule can delay.
  double attention = 0;        ///< Of the forward, what a ring of keys and values hides behind.
};

/// A rank's tokens are the micro-batch's over the context axis.
[[nodiscard]] LayerCost layer_cost(const TrainingRun& run, const DeviceSpec& device,
                                   const CostConstants& constants);
[[nodiscard]] LayerCost head_cost(const TrainingRun& run, const DeviceSpec& device,
                                  const CostConstants& constants);

}  // namespace quadrille::internal
