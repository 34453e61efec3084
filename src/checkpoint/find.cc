// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "checkpoint/folders.h"
#include "checkpoint/manifest.h"
#include "quadrille/base/file.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille {
namespace {

/// Bytes of all plain files in a folder; what cannot be read counts as nothing.
Bytes folder_bytes(const std::string& path) {
  Bytes total;
  std::error_code code;
  std::filesystem::directory_iterator entry(path, code);
  for (const std::filesystem::directory_iterator end; !code && entry != end;
       entry.increment(code)) {
    std::error_code unreadable;
    const auto size = entry->file_size(unreadable);
    if (!unreadable) total += Bytes(static_cast<std::int64_t>(size));
  }
  return total;
}

/// The checkpoint directory of `path`: itself, or, where it is a run directory, the one its job
/// names, `checkpoints` by default.
std::string checkpoint_directory(const std::string& path) {
  if (auto run = read_json_file(path + "/job.json")) {
    const Json* job = run->find("job");
    const Json* checkpoint = job == nullptr ? nullptr : job->find("checkpoint");
    if (checkpoint != nullptr) {
      const std::string named = checkpoint->string_or("directory", "");
      if (!named.empty() && path_exists(named)) return named;
    }
  }
  const std::string inside = path + "/checkpoints";
  return path_exists(inside) ? inside : path;
}

/// The step where `path` is itself a checkpoint's folder.
std::optional<std::int64_t> step_of_checkpoint(const std::string& path) {
  return internal::step_of(std::filesystem::path(path + "/").parent_path().filename().string());
}

/// An older checkpoint helps against one that is not what it should be; not against a disk or a
/// permission that fails, of which the user must hear before steps are trained again.
bool is_damage(const Error& error) {
  return error.code == Code::kCorrupt || error.code == Code::kInvalid ||
         error.code == Code::kNotFound;
}

}  // namespace

Result<std::vector<CheckpointListing>> list_checkpoints(const std::string& directory) {
  if (!path_exists(directory)) {
    return fail(Code::kNotFound, "\"" + directory + "\" does not exist");
  }
  std::vector<internal::StepFolder> folders;
  if (const auto step = step_of_checkpoint(directory)) {
    folders.push_back({*step, directory});
  } else {
    QD_ASSIGN_OR_RETURN(folders, internal::step_folders(checkpoint_directory(directory)));
  }
  std::vector<CheckpointListing> listings;
  for (const internal::StepFolder& folder : folders) {
    CheckpointListing listing{folder.path, folder.step, folder_bytes(folder.path), {}};
    if (auto opened = Checkpoint::open(folder.path); !opened) listing.damage = opened.error();
    if (!path_exists(folder.path)) continue;  // A run that goes on has just pruned it.
    listings.push_back(std::move(listing));
  }
  return listings;
}

Result<NewestCheckpoint> find_newest_valid(const std::string& directory) {
  NewestCheckpoint newest;
  if (!path_exists(directory)) return newest;
  QD_ASSIGN_OR_RETURN(auto listings, list_checkpoints(directory));
  for (std::size_t i = listings.size(); i-- > 0;) {
    CheckpointListing& listing = listings[i];
    if (!listing.damage) {
      auto opened = Checkpoint::open(listing.path);
      const auto sound = opened ? opened->verify() : fail(opened.error());
      if (sound) {
        newest.checkpoint.emplace(std::move(*opened));
        return newest;
      }
      listing.damage = sound.error();
    }
    if (!is_damage(*listing.damage)) {
      return fail(with_context(*listing.damage, "\"" + listing.path + "\" cannot be read"));
    }
    if (path_exists(listing.path)) newest.skipped.push_back(std::move(listing));
  }
  return newest;
}

bool ValidationHistory::add(std::int64_t step, double loss) {
  // A loss that is not a number is never the best.
  if (loss < best_loss.value_or(std::numeric_limits<double>::infinity())) {
    *this = {.best_loss = loss, .best_step = step};
    return true;
  }
  ++evaluations_since_best;
  return false;
}

Result<Checkpoint> resolve_best_checkpoint(const std::string& path,
                                           std::vector<CheckpointListing>* skipped) {
  QD_ASSIGN_OR_RETURN(const Checkpoint newest, resolve_checkpoint(path, skipped));
  const ValidationHistory& validation = newest.manifest().state.validation;
  if (!validation.best_loss) {
    return fail(Code::kNotFound, "\"" + newest.path() + "\" knows of no validation loss");
  }
  const std::string directory = std::filesystem::path(newest.path()).parent_path();
  const std::string best = directory + "/" + internal::step_folder_name(validation.best_step);
  if (!path_exists(best)) {
    return fail(Code::kNotFound, fmt::format("the best validation loss was at step {}, whose "
                                             "checkpoint is not kept (checkpoint.keep_best)",
                                             validation.best_step));
  }
  return Checkpoint::open(best);
}

Result<Checkpoint> resolve_checkpoint(const std::string& path,
                                      std::vector<CheckpointListing>* skipped) {
  if (!path_exists(path)) return fail(Code::kNotFound, "\"" + path + "\" does not exist");
  const auto name = std::filesystem::path(path + "/").parent_path().filename().string();
  const bool is_checkpoint = path_exists(path + "/" + std::string(internal::kManifestName));
  if (is_checkpoint || internal::step_of(name)) return Checkpoint::open(path);
  QD_ASSIGN_OR_RETURN(NewestCheckpoint newest, find_newest_valid(path));
  if (newest.checkpoint) {
    if (skipped != nullptr) *skipped = std::move(newest.skipped);
    return std::move(*newest.checkpoint);
  }
  if (newest.skipped.empty()) {
    return fail(Code::kNotFound, "\"" + path +
                                     "\" has no checkpoint: neither a manifest.json nor "
                                     "folders named step-N are there");
  }
  std::string message = fmt::format("\"{}\" has no sound checkpoint", path);
  for (const CheckpointListing& listing : newest.skipped) {
    message += "; " + listing.damage->message;
  }
  return fail(Code::kCorrupt, std::move(message));
}

}  // namespace quadrille
