// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/resume.h"

#include <fmt/format.h>

#include "quadrille/base/hash.h"
#include "quadrille/base/json.h"
#include "quadrille/config/job_reader.h"

namespace quadrille::internal {
namespace {

// The first key of `model` whose value differs, in words. Where the first weights came from no
// longer matters.
std::string first_difference(const Json& saved, const Json& wanted) {
  for (const auto& [key, value] : wanted.members()) {
    const Json* other = saved.find(key);
    if (key == "weights") continue;
    if (other == nullptr || !(*other == value)) {
      return fmt::format("model.{} is {} in the checkpoint and {} in the job", key,
                         other == nullptr ? "absent" : write_json(*other), write_json(value));
    }
  }
  return {};
}

// The same ids by another path are the same tokenizer.
bool same_tokenizer(const TrainingState& a, const TrainingState& b) {
  if (a.tokenizer_hash.empty() || b.tokenizer_hash.empty()) return a.tokenizer == b.tokenizer;
  return a.tokenizer_hash == b.tokenizer_hash;
}

std::string tokenizer_text(const TrainingState& state) {
  return fmt::format("\"{}\" (hash {})", state.tokenizer,
                     state.tokenizer_hash.empty() ? "unknown" : state.tokenizer_hash);
}

Result<void> check_fits(const TrainingState& saved, const RankBase& base, const std::string& path) {
  const TrainingState wanted = training_state(base, 0);
  const std::string difference = first_difference(saved.model, wanted.model);
  if (!difference.empty()) {
    return fail(Code::kInvalid, fmt::format("{} is of another model: {}", path, difference));
  }
  if (!same_tokenizer(saved, wanted)) {
    return fail(Code::kInvalid, fmt::format("{} was trained with tokenizer {}, the job has {}",
                                            path, tokenizer_text(saved), tokenizer_text(wanted)));
  }
  if (saved.step > base.plan->job.training.steps) {
    return fail(Code::kInvalid, fmt::format("{} has {} steps, more than the {} of training.steps",
                                            path, saved.step, base.plan->job.training.steps));
  }
  return {};
}

// Starting anew would replace what somebody may still repair.
Error none_is_sound(const std::string& directory, const std::vector<CheckpointListing>& damaged) {
  std::string message = "no checkpoint in " + directory +
                        " can be read, and starting anew would replace them; repair or move them";
  for (const CheckpointListing& listing : damaged) message += "; " + listing.damage->message;
  return {Code::kCorrupt, std::move(message), {}};
}

// Rank 0's answer: the path to load, or an empty one to start anew.
Result<std::string> choose_checkpoint(RankBase& base) {
  if (base.options.resume == ResumePolicy::kNever) return std::string();
  const std::string directory = checkpoint_directory(*base.plan, base.options.run_directory);
  const bool required = base.options.resume == ResumePolicy::kRequired;
  if (!path_exists(directory)) {
    if (!required) return std::string();
    return fail(Code::kNotFound, directory + " does not exist, but a checkpoint is required");
  }
  QD_ASSIGN_OR_RETURN(NewestCheckpoint newest, find_newest_valid(directory));
  for (const CheckpointListing& skipped : newest.skipped) {
    base.options.log->warning(fmt::format("skipped damaged checkpoint {}: {}", skipped.path,
                                          skipped.damage ? skipped.damage->message : ""));
    base.options.events->record("checkpoint_skipped", 0,
                                Json::object()
                                    .set("path", skipped.path)
                                    .set("reason", skipped.damage ? skipped.damage->message : ""));
  }
  if (newest.checkpoint) return newest.checkpoint->path();
  if (!newest.skipped.empty()) return fail(none_is_sound(directory, newest.skipped));
  if (!required) return std::string();
  return fail(Code::kNotFound, "no valid checkpoint in " + directory + ", but one is required");
}

// The choice of rank 0, on every rank.
Result<std::string> agree_on_checkpoint(RankBase& base) {
  Result<std::string> chosen = std::string();
  if (base.is_first()) chosen = choose_checkpoint(base);
  Vote vote;
  if (!chosen) vote.error = chosen.error();
  QD_ASSIGN_OR_RETURN(const Agreement agreement, base.world->agree(vote));
  if (agreement.error) return fail(*agreement.error);
  CollectiveScope scope = base.world->whole().open("the checkpoint to resume from");
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      base.world->whole().gather_bytes(scope, *chosen));
  return paths[0];
}

Result<StartPoint> load(RankBase& base, const std::string& path) {
  QD_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(path));
  const TrainingState& saved = checkpoint.manifest().state;
  QD_RETURN_IF_ERROR(check_fits(saved, base, path));
  QD_RETURN_IF_ERROR(load_all(checkpoint, *base.stream, checkpoint_tensors(base)));
  if (base.is_first()) {
    const bool same_job = saved.job_hash == training_state(base, 0).job_hash;
    if (!same_job) {
      base.options.log->warning("the checkpoint was made with other training settings: " + path);
    }
    base.options.events->record(
        "resumed", 0,
        Json::object().set("path", path).set("step", saved.step).set("same_job", same_job));
  }
  return StartPoint{.step = saved.step, .validation = saved.validation};
}

}  // namespace

TrainingState training_state(const RankBase& base, std::int64_t step) {
  const Plan& plan = *base.plan;
  const Json job = to_json(plan.job);
  TrainingState state;
  state.step = step;
  state.consumed_tokens = step * plan.job.training.tokens_per_step();
  state.model = *job.find("model");
  state.job = job;
  state.tokenizer = plan.job.data.tokenizer;
  state.tokenizer_hash = base.corpus->tokenizer_record().hash;
  // What determines the numbers of a step: the model, the data and the training settings.
  Json decisive = Json::object();
  for (const char* key : {"model", "data", "training"}) decisive.set(key, *job.find(key));
  state.job_hash = hash_text(hash64(write_json(decisive)));
  state.plan_hash = hash_text(hash64(write_json(to_json(plan))));
  return state;
}

Result<StartPoint> start_or_resume(RankBase& base,
                                   const std::function<Result<void>()>& initialise) {
  QD_ASSIGN_OR_RETURN(const std::string path, agree_on_checkpoint(base));
  Result<StartPoint> start = StartPoint{};
  if (path.empty()) {
    if (auto begun = initialise(); !begun) start = fail(std::move(begun).error());
  } else {
    start = load(base, path);
  }
  Vote vote;
  if (!start) vote.error = start.error();
  QD_ASSIGN_OR_RETURN(const Agreement agreement, base.world->agree(vote));
  if (agreement.error) return fail(*agreement.error);
  // Each rank has loaded its slices of the values.
  if (!path.empty()) QD_RETURN_IF_ERROR(agree_on(*base.world, gather_values(base)));
  return start;
}

}  // namespace quadrille::internal
