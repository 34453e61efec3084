// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "checkpoint/folders.h"
#include "checkpoint/save_task.h"
#include "quadrille/base/file.h"

namespace quadrille::internal {
namespace {

/// Removes sound checkpoints beyond the newest `keep` and the best. Damaged ones neither count nor
/// go: they are what someone will want to look at, and the last sound one must stay.
Result<void> prune(const SaverOptions& options, const TrainingState& saved) {
  QD_ASSIGN_OR_RETURN(const std::vector<StepFolder> folders, step_folders(options.directory));
  std::int64_t sound = 0;
  for (std::size_t i = folders.size(); i-- > 0;) {
    if (!Checkpoint::open(folders[i].path)) continue;
    ++sound;
    if (sound <= options.keep || folders[i].step == saved.step) continue;
    const ValidationHistory& validation = saved.validation;
    if (options.keep_best && validation.best_loss && folders[i].step == validation.best_step)
      continue;
    QD_RETURN_IF_ERROR(remove_step(options.directory, folders[i]));
  }
  return {};
}

void record_outcome(const SaverOptions& options, const SaveOutcome& outcome) {
  if (options.events == nullptr) return;
  Json fields = Json::object();
  fields.set("step", outcome.step).set("seconds", outcome.seconds.count());
  fields.set("path", outcome.path);
  if (outcome.error) {
    fields.set("code", to_text(outcome.error->code)).set("error", outcome.error->to_text());
  } else {
    fields.set("bytes", outcome.bytes.count());
  }
  options.events->record(outcome.error ? "checkpoint_failed" : "checkpoint_saved",
                         options.rank.value, std::move(fields));
}

void prune_and_record(const SaverOptions& options, const TrainingState& saved) {
  const auto pruned = prune(options, saved);
  if (pruned || options.events == nullptr) return;
  Json fields = Json::object();
  fields.set("step", saved.step).set("error", pruned.error().to_text());
  options.events->record("checkpoint_prune_failed", options.rank.value, std::move(fields));
}

}  // namespace

SaveOutcome run_save(const SaveTask& task) {
  const SaverOptions& options = *task.options;
  const Seconds start = monotonic_now();
  SaveOutcome outcome;
  outcome.step = task.state.step;
  outcome.path = options.directory + "/" + step_folder_name(task.state.step);
  auto note = write_share(task);
  if (!note) {
    outcome.error = note.error();
  } else if (options.rank.value != 0) {
    outcome.bytes = note->shard.bytes;
  } else if (auto bytes = gather_and_commit(task, std::move(*note))) {
    outcome.bytes = *bytes;
  } else {
    outcome.error = bytes.error();
  }
  outcome.seconds = monotonic_now() - start;
  if (options.rank.value != 0) return outcome;
  if (outcome.error) (void)remove_tree(task.partial_path());  // else the next run does it
  record_outcome(options, outcome);
  if (!outcome.error) prune_and_record(options, task.state);
  return outcome;
}

}  // namespace quadrille::internal
