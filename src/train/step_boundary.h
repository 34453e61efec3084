// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What surrounds every step, whoever computes it: the heartbeat, the row of metrics, evaluations,
// checkpoints, and the ranks' agreement to go on, to stop or to fail. Everything here happens on
// every rank in the same order.

#include <cstdint>
#include <functional>
#include <optional>

#include "quadrille/observe/run_record.h"
#include "train/rank_base.h"
#include "train/resume.h"

namespace quadrille::internal {

class StepBoundary {
 public:
  /// `base` outlives this.
  StepBoundary(RankBase& base, const StartPoint& start);

  /// Opens the run's metrics, cut to the start. Errors: why rank 0 cannot write them.
  [[nodiscard]] Result<void> open();
  /// Step `step` begins on this rank.
  void enter(std::int64_t step);
  [[nodiscard]] bool evaluates(std::int64_t step) const;
  /// Notes what `loss` finds as the validation loss of the record's step. Collective.
  [[nodiscard]] Result<void> evaluate(StepRecord& record,
                                      const std::function<Result<double>()>& loss);
  /// The step is done: row, checkpoint if one is due, agreement. Collective.
  [[nodiscard]] Result<void> complete(const StepRecord& record);
  /// The step failed. A figure that is not finite (kInvalid) is the same on every rank: the state
  /// before the step is saved, then the run ends. Any other failure has already reached the peers
  /// through their own waits. Collective for kInvalid. Always an error.
  [[nodiscard]] Result<void> abandon(std::int64_t step, const Error& error);
  /// The run is over: the last checkpoint is on the disk on every rank, or the run says that it is
  /// not. Collective.
  [[nodiscard]] Result<TrainingOutcome> finish();

  /// Another step is to be trained: the last one is not done, nobody asked to stop and the
  /// validation loss still improves.
  [[nodiscard]] bool goes_on() const;
  [[nodiscard]] std::int64_t steps_done() const { return outcome_.steps_done; }

 private:
  [[nodiscard]] bool patience_is_over() const;
  void append(const StepRecord& record);
  [[nodiscard]] Result<void> save(std::int64_t step);
  void report(const std::vector<SaveOutcome>& outcomes);
  [[nodiscard]] Result<void> agree_to_go_on();

  RankBase& base_;
  std::int64_t start_;
  ValidationHistory validation_;
  std::int64_t saved_step_ = -1;
  std::optional<Error> last_save_error_;
  std::optional<MetricsWriter> metrics_;
  TrainingOutcome outcome_;
};

}  // namespace quadrille::internal
