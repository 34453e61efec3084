// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/step_update.h"

#include <fmt/format.h>

#include <array>

#include "quadrille/optim/learning_rate.h"

namespace quadrille::internal {

Result<LossSum> sum_over_ranks(RankBase& base, Stopwatch& watch, const LossSum& mine,
                               const char* place) {
  std::array<double, 2> sums{mine.sum, static_cast<double>(mine.tokens)};
  const PhaseScope phase(watch, Phase::kCommunication);
  CollectiveScope scope = base.world->whole().open(place);
  QD_RETURN_IF_ERROR(base.world->whole().sum(scope, sums));
  return LossSum{sums[0], static_cast<std::int64_t>(sums[1])};
}

Result<StepFigures> update(RankBase& base, std::int64_t step, const LossSum& loss) {
  const TrainingSpec& training = base.plan->job.training;
  StepFigures figures;
  figures.loss = loss.mean();
  figures.tokens = loss.tokens;
  figures.learning_rate = learning_rate_at(training, (step - 1) * training.tokens_per_step());
  auto outcome = base.optimizer->step(
      {.step = step, .tokens = loss.tokens, .learning_rate = figures.learning_rate});
  if (!outcome) return fail(with_context(outcome.error(), fmt::format("step {}", step)));
  figures.gradient_norm = outcome->gradient_norm;
  QD_RETURN_IF_ERROR(base.stream->synchronize());
  return figures;
}

}  // namespace quadrille::internal
