// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quadrille {
namespace {

/// From 1 at `progress` 0 to 0 at 1.
double remaining(const TrainingSpec& training, double progress) {
  switch (training.schedule) {
    case LearningRateSchedule::kConstant:
      return 1;
    case LearningRateSchedule::kLinear:
      return 1 - progress;
    case LearningRateSchedule::kCosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case LearningRateSchedule::kWsd:
      return 1 - progress;
  }
  return 1;
}

/// Consumed tokens at which the rate starts to fall.
double decay_start(const TrainingSpec& training) {
  const double warm = static_cast<double>(training.warmup_steps);
  const double steps = static_cast<double>(training.steps);
  const double per_step = static_cast<double>(training.tokens_per_step());
  if (training.schedule != LearningRateSchedule::kWsd) return warm * per_step;
  return std::max(warm, steps * (1 - training.decay_fraction)) * per_step;
}

}  // namespace

double learning_rate_at(const TrainingSpec& training, std::int64_t consumed) {
  const double done = static_cast<double>(consumed);
  const double per_step = static_cast<double>(training.tokens_per_step());
  const double warm = static_cast<double>(training.warmup_steps) * per_step;
  // The step's own tokens count while warming up, so the first step's rate is not 0 and the last
  // warm-up step has the full one. They do not count in the decay, which would waste the last step
  // on a minimum of 0.
  if (done + per_step <= warm) return training.learning_rate * (done + per_step) / warm;
  const double start = decay_start(training);
  const double end = static_cast<double>(training.steps) * per_step;
  if (done <= start) return training.learning_rate;
  const double progress = end > start ? std::min(1.0, (done - start) / (end - start)) : 1.0;
  const double span = training.learning_rate - training.minimum_learning_rate;
  return training.minimum_learning_rate + span * remaining(training, progress);
}

}  // namespace quadrille
