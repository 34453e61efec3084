// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The learning rate as a function of consumed tokens.

#include <cstdint>

#include "quadrille/config/job_spec.h"

namespace quadrille {

/// Rate of the step that starts when `consumed` tokens have been trained on. Linear warm-up over
/// warmup_steps' tokens (the first step's rate is not 0: it counts its own tokens), then constant,
/// linear or cosine to minimum_learning_rate at the run's last token, or wsd: constant, then linear
/// over the last decay_fraction. Source of cosine: Loshchilov & Hutter 2017, "SGDR", eq. 5; wsd: Hu
/// et al. 2024, "MiniCPM", section 4.2.
[[nodiscard]] double learning_rate_at(const TrainingSpec& training, std::int64_t consumed);

}  // namespace quadrille
