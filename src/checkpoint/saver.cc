// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>

#include "checkpoint/directory_lock.h"
#include "checkpoint/folders.h"
#include "checkpoint/save_task.h"
#include "checkpoint/staging.h"
#include "checkpoint/worker_thread.h"
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
  internal::DirectoryLock directory_lock;  ///< Rank 0's.
  std::vector<CheckpointTensor> tensors;
  std::vector<SafetensorsTensor> described;
  std::vector<internal::SavedPart> parts;
  internal::Staging staging;
  std::unique_ptr<Stream> stream;  ///< The writer's.
  std::int64_t saves = 0;
  std::thread writer;
  std::atomic<bool> written = false;  ///< The writer has put its outcome into `running`.
  SaveOutcome running;
  std::vector<SaveOutcome> outcomes;

  std::mutex mutex;
  std::condition_variable changed;
  bool reading = false;  ///< The writer reads tensors. Guarded by mutex.

  [[nodiscard]] internal::SaveTask task_of(const TrainingState& state);
  void start(const internal::SaveTask& task);
  void finish();
};

internal::SaveTask CheckpointSaver::State::task_of(const TrainingState& state) {
  const auto on_read = [this] {
    const std::lock_guard lock(mutex);
    reading = false;
    changed.notify_all();
  };
  return {.options = &options,
          .tensors = described,
          .sources = tensors,
          .parts = parts,
          .stream = stream.get(),
          .staging = staging.bytes(),
          .state = state,
          .attempt = ++saves,
          .on_read = on_read};
}

void CheckpointSaver::State::start(const internal::SaveTask& task) {
  running.step = task.state.step;
  written = false;
  const bool started = internal::start_worker(writer, [this, task] {
    running = internal::run_save(task);
    written = true;
  });
  // Without one the other ranks still wait for this one's shard, so it is written here.
  if (!started) outcomes.push_back(internal::run_save(task));
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
    QD_ASSIGN_OR_RETURN(state->directory_lock, internal::DirectoryLock::take(options.directory));
    QD_RETURN_IF_ERROR(prepare_directory(options.directory));
  }
  state->options = options;
  state->tensors = std::move(tensors);
  state->described = describe(state->tensors);
  state->parts = internal::parts_to_save(state->tensors, options.rank, options.ranks);
  Bytes own;
  for (const internal::SavedPart& part : state->parts) {
    own += Bytes(part.runs.elements()) * element_bytes(state->tensors[part.tensor].view.dtype());
  }
  QD_ASSIGN_OR_RETURN(state->staging,
                      internal::Staging::create(internal::staging_bytes(own), options.pool));
  state->stream = options.stream->device().make_stream();
  return std::unique_ptr<CheckpointSaver>(new CheckpointSaver(std::move(state)));
}

CheckpointSaver::CheckpointSaver(std::unique_ptr<State> state) : state_(std::move(state)) {}

CheckpointSaver::~CheckpointSaver() { state_->finish(); }

Result<void> CheckpointSaver::save(const TrainingState& state) {
  QD_CHECK(state.step >= 0);
  state_->finish();
  // The writer reads what the operations so far have left.
  state_->stream->wait(*state_->options.stream->record());
  const internal::SaveTask task = state_->task_of(state);
  {
    const std::lock_guard lock(state_->mutex);
    state_->reading = true;
  }
  if (state_->options.asynchronous) {
    state_->start(task);
  } else {
    state_->outcomes.push_back(internal::run_save(task));
  }
  return {};
}

Result<Seconds> CheckpointSaver::wait_until_read() {
  constexpr std::chrono::milliseconds kLook{20};
  const SaverOptions& options = state_->options;
  std::unique_lock lock(state_->mutex);
  if (!state_->reading) return Seconds(0);
  const Seconds begin = monotonic_now();
  const std::string what = fmt::format(
      "rank {} waits until the checkpoint of step {} has read the tensors that are to "
      "change (writing to \"{}\")",
      options.rank.value, state_->running.step, options.directory);
  while (!state_->changed.wait_for(lock, kLook, [this] { return !state_->reading; })) {
    if (options.stop != nullptr && options.stop->abort_requested()) {
      return fail(Code::kAborted, what + ": given up, the run is ending");
    }
    if (monotonic_now() - begin > options.timeout) {
      return fail(Code::kTimeout,
                  fmt::format("{}: not done after {}", what, to_text(options.timeout)));
    }
  }
  return monotonic_now() - begin;
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
