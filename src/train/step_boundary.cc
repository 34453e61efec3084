// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/step_boundary.h"

#include <fmt/format.h>

namespace quadrille::internal {
namespace {

bool is_due(std::int64_t every, std::int64_t step, std::int64_t last) {
  return every > 0 && (step % every == 0 || step == last);
}

}  // namespace

StepBoundary::StepBoundary(RankBase& base, const StartPoint& start)
    : base_(base), start_(start.step), validation_(start.validation) {
  outcome_.steps_done = start.step;
  outcome_.ended_early = patience_is_over();
}

bool StepBoundary::patience_is_over() const {
  const std::int64_t patience = base_.plan->job.training.patience;
  return patience > 0 && validation_.evaluations_since_best >= patience;
}

bool StepBoundary::goes_on() const {
  return outcome_.steps_done < base_.plan->job.training.steps && !outcome_.stopped &&
         !outcome_.ended_early;
}

Result<void> StepBoundary::open() {
  if (!base_.is_first()) return {};
  QD_ASSIGN_OR_RETURN(metrics_,
                      MetricsWriter::open(base_.options.run_directory + "/metrics.jsonl", start_));
  return {};
}

void StepBoundary::enter(std::int64_t step) {
  if (base_.options.profiler != nullptr) {
    base_.options.profiler->begin_step(step, base_.pool->leases_made());
  }
  if (base_.options.recorder == nullptr) return;
  base_.options.recorder->set_step(base_.world->rank(), step);
}

bool StepBoundary::evaluates(std::int64_t step) const {
  const TrainingSpec& training = base_.plan->job.training;
  return is_due(training.evaluate_every, step, training.steps) &&
         base_.corpus->validation().samples > 0;
}

Result<void> StepBoundary::evaluate(StepRecord& record,
                                    const std::function<Result<double>()>& loss) {
  const Seconds begin = monotonic_now();
  QD_ASSIGN_OR_RETURN(const double found, loss());
  record.validation_loss = found;
  outcome_.last_validation_loss = found;
  const bool is_best = validation_.add(record.step, found);
  outcome_.ended_early = patience_is_over();
  if (base_.is_first()) {
    base_.options.events->record("evaluated", 0,
                                 Json::object()
                                     .set("step", record.step)
                                     .set("validation_loss", found)
                                     .set("best", is_best)
                                     .set("seconds", (monotonic_now() - begin).count()));
  }
  return {};
}

Result<void> StepBoundary::complete(const StepRecord& record) {
  outcome_.steps_done = record.step;
  outcome_.last_loss = record.loss;
  append(record);
  if (base_.options.after_step) QD_RETURN_IF_ERROR(base_.options.after_step(record));
  const JobSpec& job = base_.plan->job;
  const bool is_best =
      job.checkpoint.keep_best && record.validation_loss && validation_.best_step == record.step;
  if (is_best || is_due(job.checkpoint.every, record.step, job.training.steps)) {
    QD_RETURN_IF_ERROR(save(record.step));
  }
  return agree_to_go_on();
}

Result<void> StepBoundary::abandon(std::int64_t step, const Error& error) {
  if (error.code != Code::kInvalid) return fail(error);
  base_.options.events->record("step_not_finite", base_.world->rank().value,
                               Json::object().set("step", step).set("error", error.message));
  QD_ASSIGN_OR_RETURN(const std::optional<std::string> bad, first_bad_value(base_));
  const bool sound = !bad;
  if (sound && saved_step_ != step - 1 && step - 1 > start_) QD_RETURN_IF_ERROR(save(step - 1));
  report(base_.saver->wait());
  QD_ASSIGN_OR_RETURN(const Agreement agreement, base_.world->agree({.error = error}));
  Error agreed = *agreement.error;
  agreed.code = Code::kAborted;
  agreed.message += sound ? fmt::format("; the state after step {} is kept", step - 1)
                          : "; the newest checkpoint is kept";
  return fail(agreed);
}

Result<TrainingOutcome> StepBoundary::finish() {
  if (saved_step_ != outcome_.steps_done && outcome_.steps_done > start_) {
    QD_RETURN_IF_ERROR(save(outcome_.steps_done));
  }
  report(base_.saver->wait());
  Result<void> saved;
  if (last_save_error_) {
    saved = fail(with_context(*last_save_error_, "the last checkpoint could not be saved"));
  }
  QD_RETURN_IF_ERROR(agree_on(*base_.world, saved));
  return outcome_;
}

// A metrics file that cannot be written costs rows, not the run.
void StepBoundary::append(const StepRecord& record) {
  if (!metrics_) return;
  if (auto written = metrics_->append(record); !written) {
    base_.options.log->warning(written.error().to_text());
  }
}

Result<void> StepBoundary::save(std::int64_t step) {
  saved_step_ = step;
  if (!base_.options.saves) return {};
  const TraceScope span(base_.options.profiler, SpanKind::kSave,
                        [step] { return fmt::format("save step {}", step); });
  TrainingState state = training_state(base_, step);
  state.validation = validation_;
  auto saved = base_.saver->save(state);
  if (!saved) base_.options.log->warning("checkpoint: " + saved.error().to_text());
  report(base_.saver->poll());
  return {};
}

void StepBoundary::report(const std::vector<SaveOutcome>& outcomes) {
  for (const SaveOutcome& outcome : outcomes) {
    if (outcome.error) {
      base_.options.log->error(
          fmt::format("checkpoint of step {} failed: {}", outcome.step, outcome.error->message));
      last_save_error_ = outcome.error;
    } else {
      base_.options.log->info(fmt::format("saved {} ({}, {})", outcome.path, to_text(outcome.bytes),
                                          to_text(outcome.seconds)));
      last_save_error_.reset();
    }
  }
}

Result<void> StepBoundary::agree_to_go_on() {
  report(base_.saver->poll());
  const bool stop = base_.options.stop != nullptr && base_.options.stop->stop_requested();
  QD_ASSIGN_OR_RETURN(const Agreement agreement, base_.world->agree({.stop = stop}));
  if (agreement.error) return fail(*agreement.error);
  outcome_.stopped = agreement.stop && goes_on();
  return {};
}

}  // namespace quadrille::internal
