// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/train/trainer.h"

#include <fmt/format.h>

#include "train/executor.h"
#include "train/rank_state.h"
#include "train/resume.h"
#include "train/step_report.h"

namespace quadrille {
namespace internal {
namespace {

bool is_due(std::int64_t every, std::int64_t step, std::int64_t last) {
  return every > 0 && (step % every == 0 || step == last);
}

// The loop of one rank from `start` on. Everything here happens on every rank in the same order.
class TrainingLoop {
 public:
  TrainingLoop(RankState& state, std::int64_t start)
      : state_(state), executor_(state), start_(start) {
    outcome_.steps_done = start;
  }

  Result<TrainingOutcome> run() {
    if (state_.is_first()) {
      QD_ASSIGN_OR_RETURN(
          metrics_, MetricsWriter::open(state_.options.run_directory + "/metrics.jsonl", start_));
    }
    const std::int64_t steps = state_.plan->job.training.steps;
    for (std::int64_t step = start_ + 1; step <= steps; ++step) {
      QD_RETURN_IF_ERROR(one_step(step));
      if (outcome_.stopped) break;
    }
    if (saved_step_ != outcome_.steps_done && outcome_.steps_done > start_) {
      QD_RETURN_IF_ERROR(save(outcome_.steps_done));
    }
    return finish();
  }

 private:
  Result<void> one_step(std::int64_t step) {
    if (state_.options.recorder != nullptr) {
      state_.options.recorder->set_step(state_.world->rank(), step);
    }
    auto figures = executor_.train_step(step);
    if (!figures) return step_failed(step, figures.error());
    QD_ASSIGN_OR_RETURN(StepRecord record, report_step(state_, executor_, step, *figures));
    outcome_.steps_done = step;
    outcome_.last_loss = figures->loss;
    const TrainingSpec& training = state_.plan->job.training;
    if (is_due(training.evaluate_every, step, training.steps) &&
        state_.corpus->validation().samples > 0) {
      QD_RETURN_IF_ERROR(evaluate(record));
    }
    record_metrics(record);
    if (is_due(state_.plan->job.checkpoint.every, step, training.steps)) {
      QD_RETURN_IF_ERROR(save(step));
    }
    return agree_to_go_on();
  }

  // A figure that is not finite is the same on every rank: the state before the step is saved, then
  // the run ends. Any other failure has already reached the peers through their own waits.
  Result<void> step_failed(std::int64_t step, const Error& error) {
    if (error.code != Code::kInvalid) return fail(error);
    state_.options.events->record("step_not_finite", state_.world->rank().value,
                                  Json::object().set("step", step).set("error", error.message));
    QD_ASSIGN_OR_RETURN(const bool sound, parameters_are_finite());
    if (sound && saved_step_ != step - 1 && step - 1 > start_) QD_RETURN_IF_ERROR(save(step - 1));
    report(state_.saver->wait());
    QD_ASSIGN_OR_RETURN(const Agreement agreement, state_.world->agree({.error = error}));
    Error agreed = *agreement.error;
    agreed.code = Code::kAborted;
    agreed.message += sound ? fmt::format("; the state after step {} is kept", step - 1)
                            : "; the newest checkpoint is kept";
    return fail(agreed);
  }

  Result<bool> parameters_are_finite() {
    for (const Parameter& parameter : state_.model->parameters()) {
      QD_ASSIGN_OR_RETURN(const std::int64_t bad, count_nonfinite(state_, parameter.value));
      if (bad > 0) return false;
    }
    return true;
  }

  Result<void> evaluate(StepRecord& record) {
    const Seconds begin = monotonic_now();
    QD_ASSIGN_OR_RETURN(const double loss, executor_.evaluate());
    record.validation_loss = loss;
    outcome_.last_validation_loss = loss;
    if (state_.is_first()) {
      state_.options.events->record("evaluated", 0,
                                    Json::object()
                                        .set("step", record.step)
                                        .set("validation_loss", loss)
                                        .set("seconds", (monotonic_now() - begin).count()));
    }
    return {};
  }

  // A metrics file that cannot be written costs rows, not the run.
  void record_metrics(const StepRecord& record) {
    if (!metrics_) return;
    if (auto written = metrics_->append(record); !written) {
      state_.options.log->warning(written.error().to_text());
    }
  }

  Result<void> save(std::int64_t step) {
    saved_step_ = step;
    auto saved = state_.saver->save(training_state(*state_.plan, step));
    if (!saved) state_.options.log->warning("checkpoint: " + saved.error().to_text());
    report(state_.saver->poll());
    return {};
  }

  void report(const std::vector<SaveOutcome>& outcomes) {
    for (const SaveOutcome& outcome : outcomes) {
      if (outcome.error) {
        state_.options.log->error(
            fmt::format("checkpoint of step {} failed: {}", outcome.step, outcome.error->message));
        last_save_error_ = outcome.error;
      } else {
        state_.options.log->info(fmt::format("saved {} ({}, {})", outcome.path,
                                             to_text(outcome.bytes), to_text(outcome.seconds)));
        last_save_error_.reset();
      }
    }
  }

  Result<void> agree_to_go_on() {
    report(state_.saver->poll());
    const bool stop = state_.options.stop != nullptr && state_.options.stop->stop_requested();
    QD_ASSIGN_OR_RETURN(const Agreement agreement, state_.world->agree({.stop = stop}));
    if (agreement.error) return fail(*agreement.error);
    outcome_.stopped = agreement.stop && outcome_.steps_done < state_.plan->job.training.steps;
    return {};
  }

  // The last checkpoint is on the disk on every rank, or the run says that it is not.
  Result<TrainingOutcome> finish() {
    report(state_.saver->wait());
    Vote vote;
    if (last_save_error_) {
      vote.error = with_context(*last_save_error_, "the last checkpoint could not be saved");
    }
    QD_ASSIGN_OR_RETURN(const Agreement agreement, state_.world->agree(vote));
    if (agreement.error) return fail(*agreement.error);
    return outcome_;
  }

  RankState& state_;
  Executor executor_;
  std::int64_t start_;
  std::int64_t saved_step_ = -1;
  std::optional<Error> last_save_error_;
  std::optional<MetricsWriter> metrics_;
  TrainingOutcome outcome_;
};

// One rank's failure before the first step becomes the failure of all.
Result<void> agree_that_all_is_well(World& world, const std::optional<Error>& mine) {
  QD_ASSIGN_OR_RETURN(const Agreement agreement, world.agree({.error = mine}));
  if (agreement.error) return fail(*agreement.error);
  return {};
}

Result<std::unique_ptr<RankState>> build_together(World& world, const TrainerOptions& options) {
  auto state = build_local(world, options);
  QD_RETURN_IF_ERROR(
      agree_that_all_is_well(world, state ? std::nullopt : std::optional<Error>(state.error())));
  const Result<void> shared = build_shared(**state);
  QD_RETURN_IF_ERROR(
      agree_that_all_is_well(world, shared ? std::nullopt : std::optional<Error>(shared.error())));
  return state;
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
  QD_ASSIGN_OR_RETURN(const internal::StartPoint start, internal::start_or_resume(*state));
  options.log->info(fmt::format("training {} from step {}", options.plan->job.name, start.step));
  return internal::TrainingLoop(*state, start.step).run();
}

}  // namespace quadrille
