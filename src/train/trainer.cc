// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/train/trainer.h"

#include <fmt/format.h>

#include "quadrille/kernels/matmul.h"
#include "train/executor.h"
#include "train/rank_state.h"
#include "train/replicas.h"
#include "train/resume.h"
#include "train/start_weights.h"
#include "train/step_boundary.h"
#include "train/step_report.h"

namespace quadrille {
namespace internal {
namespace {

// The loop of one rank from `start` on.
class TrainingLoop {
 public:
  TrainingLoop(RankState& state, const StartPoint& start)
      : state_(state), executor_(state), boundary_(state, start) {}

  Result<TrainingOutcome> run() {
    QD_RETURN_IF_ERROR(boundary_.open());
    while (boundary_.goes_on()) QD_RETURN_IF_ERROR(one_step(boundary_.steps_done() + 1));
    return boundary_.finish();
  }

 private:
  Result<void> one_step(std::int64_t step) {
    boundary_.enter(step);
    auto figures = executor_.train_step(step);
    if (!figures) return boundary_.abandon(step, figures.error());
    if (compares_replicas(state_, step)) QD_RETURN_IF_ERROR(compare_replicas(state_, step));
    QD_ASSIGN_OR_RETURN(StepRecord record, report_step(state_, executor_.watch(), step, *figures));
    if (boundary_.evaluates(step)) {
      QD_RETURN_IF_ERROR(boundary_.evaluate(record, [this] { return executor_.evaluate(); }));
    }
    return boundary_.complete(record);
  }

  RankState& state_;
  Executor executor_;
  StepBoundary boundary_;
};

Result<std::unique_ptr<RankState>> build_together(World& world, const TrainerOptions& options) {
  auto state = build_local(world, options);
  QD_RETURN_IF_ERROR(agree_on(world, state ? Result<void>() : Result<void>(fail(state.error()))));
  QD_RETURN_IF_ERROR(agree_on(world, build_shared(**state)));
  return state;
}

// Once a run: said by the first rank.
void report_precision(const RankState& state) {
  const TrainingSpec& training = state.plan->job.training;
  if (!state.is_first() || training.precision == Precision::kFp32) return;
  const bool native = state.rounding.precision == kernels::ProductPrecision::kBf16;
  state.options.events->record("precision", 0,
                               Json::object()
                                   .set("precision", kPrecisionText.text(training.precision))
                                   .set("products", native ? "bf16" : "fp32 of rounded factors")
                                   .set("library", kernels::matmul_library()));
  if (native) return;
  state.options.log->warning(
      "training.precision is \"bf16\", but this host has no bf16 products: factors are rounded to "
      "bf16 and multiplied as fp32, which gives the same losses and is no faster than \"fp32\"");
}

}  // namespace
}  // namespace internal

Result<TrainingOutcome> train(World& world, const TrainerOptions& options) {
  QD_CHECK(options.plan != nullptr && options.device != nullptr);
  QD_CHECK(options.events != nullptr && options.log != nullptr);
  if (world.size() != options.plan->ranks()) {
    return fail(Code::kInvalid, fmt::format("the plan is for {} ranks, but {} started",
                                            options.plan->ranks(), world.size()));
  }
  QD_ASSIGN_OR_RETURN(const std::unique_ptr<internal::RankState> state,
                      internal::build_together(world, options));
  const auto initialise = [&state] { return internal::start_anew(*state); };
  QD_ASSIGN_OR_RETURN(const internal::StartPoint start,
                      internal::start_or_resume(*state, initialise));
  internal::report_precision(*state);
  options.log->info(fmt::format("training {} from step {}", options.plan->job.name, start.step));
  return internal::TrainingLoop(*state, start).run();
}

}  // namespace quadrille
