// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <utility>

#include "checkpoint/directory_lock.h"
#include "checkpoint/folders.h"
#include "checkpoint/save_task.h"
#include "checkpoint/staging.h"
#include "quadrille/base/file.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille {
namespace {

Result<void> check_options(const SaverOptions& options) {
  if (options.directory.empty()) return fail(Code::kInvalid, "checkpoints need a directory");
  if (options.keep < 1) return fail(Code::kInvalid, "checkpoint.keep must be at least 1");
  QD_CHECK(options.stream != nullptr);
  QD_CHECK(options.rank.value >= 0 && options.rank.value < options.ranks);
  return {};
}

/// Rank 0, with the lock: the directory is clean and can be written now rather than at the first
/// save.
Result<void> prepare_directory(const std::string& directory) {
  QD_RETURN_IF_ERROR(internal::clear_leftovers(directory));
  const std::string probe = directory + "/.partial-probe";
  QD_RETURN_IF_ERROR(make_folders(probe));
  return remove_tree(probe);
}

std::vector<SafetensorsTensor> describe(const std::vector<CheckpointTensor>& tensors) {
  std::vector<SafetensorsTensor> described;
  std::unordered_set<std::string_view> names;
  for (const CheckpointTensor& tensor : tensors) {
    QD_CHECK_MSG(names.insert(tensor.name).second, "two tensors are named " + tensor.name);
    described.push_back({tensor.name, stored_type(tensor.view.dtype()), tensor.shape(), Bytes(0)});
  }
  return described;
}

}  // namespace

struct CheckpointSaver::State {
  SaverOptions options;
  internal::DirectoryLock lock;  ///< Rank 0's.
  std::vector<CheckpointTensor> tensors;
  std::vector<SafetensorsTensor> described;
  std::vector<internal::SavedPart> parts;
  internal::Staging staging;
  std::int64_t saves = 0;
  std::thread writer;
  std::atomic<bool> written = false;  ///< The writer has put its outcome into `running`.
  SaveOutcome running;
  std::vector<SaveOutcome> outcomes;

  Result<void> snapshot();
  void finish();
};

Result<void> CheckpointSaver::State::snapshot() {
  auto rest = staging.bytes();
  for (const internal::SavedPart& part : parts) {
    const TensorView& view = tensors[part.tensor].view;
    const auto count = static_cast<std::size_t>(view.bytes().count());
    if (count > 0) options.stream->download(view, rest.first(count));
    rest = rest.subspan(count);
  }
  QD_CHECK(rest.empty());
  return options.stream->synchronize();
}

/// Joins the writer, if there is one.
void CheckpointSaver::State::finish() {
  if (!writer.joinable()) return;
  writer.join();
  outcomes.push_back(std::move(running));
}

Result<std::unique_ptr<CheckpointSaver>> CheckpointSaver::create(
    const SaverOptions& options, std::vector<CheckpointTensor> tensors) {
  QD_RETURN_IF_ERROR(check_options(options));
  auto state = std::make_unique<State>();
  if (options.rank.value == 0) {
    QD_RETURN_IF_ERROR(make_folders(options.directory));
    QD_ASSIGN_OR_RETURN(state->lock, internal::DirectoryLock::take(options.directory));
    QD_RETURN_IF_ERROR(prepare_directory(options.directory));
  }
  state->options = options;
  state->tensors = std::move(tensors);
  state->described = describe(state->tensors);
  state->parts = internal::parts_to_save(state->tensors, options.rank, options.ranks);
  Bytes own;
  for (const internal::SavedPart& part : state->parts) {
    own += state->tensors[part.tensor].view.bytes();
  }
  QD_ASSIGN_OR_RETURN(state->staging, internal::Staging::create(own, options.pool));
  return std::unique_ptr<CheckpointSaver>(new CheckpointSaver(std::move(state)));
}

CheckpointSaver::CheckpointSaver(std::unique_ptr<State> state) : state_(std::move(state)) {}

CheckpointSaver::~CheckpointSaver() { state_->finish(); }

Result<void> CheckpointSaver::save(const TrainingState& state) {
  QD_CHECK(state.step >= 0);
  state_->finish();
  QD_RETURN_IF_ERROR(state_->snapshot());
  const internal::SaveTask task{
      &state_->options, state_->described, state_->parts, state_->staging.bytes(), state,
      ++state_->saves};
  if (!state_->options.asynchronous) {
    state_->outcomes.push_back(internal::run_save(task));
    return {};
  }
  state_->written = false;
  const auto work = [state = state_.get(), task] {
    state->running = internal::run_save(task);
    state->written = true;
  };
  try {
    state_->writer = std::thread(work);
  } catch (const std::system_error&) {
    // No thread to be had: the other ranks wait for this one's shard, so it is written here.
    state_->outcomes.push_back(internal::run_save(task));
  }
  return {};
}

std::vector<SaveOutcome> CheckpointSaver::poll() {
  if (state_->written) state_->finish();
  return std::exchange(state_->outcomes, {});
}

std::vector<SaveOutcome> CheckpointSaver::wait() {
  state_->finish();
  return std::exchange(state_->outcomes, {});
}

}  // namespace quadrille
