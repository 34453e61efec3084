// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/step_update.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "quadrille/base/json.h"
#include "quadrille/optim/learning_rate.h"

namespace quadrille::internal {

Result<LossSum> sum_over_ranks(RankBase& base, Stopwatch& watch, const LossSum& mine,
                               const char* place) {
  std::array<double, 2> sums{mine.sum, static_cast<double>(mine.tokens)};
  const PhaseScope phase(watch, Phase::kCommunication);
  // Ranks that share the layers have found the same loss of the same sequences.
  CollectiveScope scope = base.data_group->open(place);
  QD_RETURN_IF_ERROR(base.data_group->sum(scope, sums));
  return LossSum{sums[0], static_cast<std::int64_t>(sums[1])};
}

namespace {

/// Whose gradients, counted once each, are all of them.
Communicator& norm_group(const RankBase& base) {
  return base.sharding() > 0 ? base.world->whole() : *base.tensor_group;
}

/// Names the first gradient that is not finite, the same on every rank. Where each has slices, its
/// bad elements are counted over all of them. Collective.
Result<Error> nonfinite_error(RankBase& base) {
  QD_ASSIGN_OR_RETURN(const std::vector<NonfiniteGradient> mine, base.optimizer->nonfinite());
  Communicator& group = norm_group(base);
  if (group.size() == 1) {
    QD_CHECK(!mine.empty());
    return to_error(mine.front());
  }
  Json list = Json::array();
  for (const NonfiniteGradient& gradient : mine) {
    list.push(Json::object()
                  .set("name", gradient.name)
                  .set("bad", gradient.bad)
                  .set("elements", gradient.elements));
  }
  CollectiveScope scope = group.open("gradients that are not finite");
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                      group.gather_bytes(scope, write_json(list)));
  std::optional<NonfiniteGradient> first;
  for (const std::string& text : texts) {
    QD_ASSIGN_OR_RETURN(const Json theirs, parse_json(text, {}));
    for (const Json& entry : theirs.elements()) {
      const std::string name = entry.string_or("name", "");
      if (!first) first = NonfiniteGradient{name, 0, entry.find("elements")->as_integer()};
      if (first->name == name) first->bad += entry.find("bad")->as_integer();
    }
  }
  QD_CHECK(first.has_value());
  return to_error(*first);
}

/// The sum over all ranks' slices and pieces, in rank order.
Result<double> global_squares(RankBase& base, Stopwatch& watch) {
  QD_ASSIGN_OR_RETURN(double squares, base.optimizer->sum_of_squares());
  if (Communicator& group = norm_group(base); group.size() > 1) {
    const PhaseScope phase(watch, Phase::kCommunication);
    CollectiveScope scope = group.open("the norm of the gradients");
    QD_RETURN_IF_ERROR(group.sum(scope, std::span(&squares, 1)));
  }
  if (std::isfinite(squares)) return squares;
  QD_ASSIGN_OR_RETURN(Error error, nonfinite_error(base));
  return fail(std::move(error));
}

/// Bucket by bucket, so that what was just updated is sent to the others from the cache.
Result<void> update_slices(RankBase& base, Stopwatch& watch, const OptimizerStep& step,
                           const OptimizerOutcome& outcome) {
  int first = 0;
  for (int bucket = 0; bucket < base.buckets->buckets(); ++bucket) {
    int end = first;
    while (end < base.optimizer->tensors() &&
           base.pieces[static_cast<std::size_t>(end)].bucket == bucket) {
      ++end;
    }
    base.optimizer->update(step, outcome, first, end);
    const PhaseScope phase(watch, Phase::kCommunication);
    QD_RETURN_IF_ERROR(gather_values(base, bucket));
    first = end;
  }
  QD_CHECK(first == base.optimizer->tensors());
  return {};
}

}  // namespace

Result<StepFigures> update(RankBase& base, Stopwatch& watch, std::int64_t step,
                           const LossSum& loss) {
  const TrainingSpec& training = base.plan->job.training;
  StepFigures figures;
  figures.loss = loss.mean();
  figures.tokens = loss.tokens;
  figures.learning_rate = learning_rate_at(training, (step - 1) * training.tokens_per_step());
  const OptimizerStep optimized{
      .step = step, .tokens = loss.tokens, .learning_rate = figures.learning_rate};
  const auto squares = global_squares(base, watch);
  if (!squares) return fail(with_context(squares.error(), fmt::format("step {}", step)));
  const OptimizerOutcome outcome = base.optimizer->outcome(optimized, *squares);
  figures.gradient_norm = outcome.gradient_norm;
  if (base.sharding() == 0) {
    base.optimizer->update(optimized, outcome, 0, base.optimizer->tensors());
  } else {
    QD_RETURN_IF_ERROR(update_slices(base, watch, optimized, outcome));
  }
  QD_RETURN_IF_ERROR(base.stream->synchronize());
  return figures;
}

}  // namespace quadrille::internal
