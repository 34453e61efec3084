// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint is logical: named global tensors in safetensors shards, and a manifest (shapes,
// extents, checksums, step, data position, optimizer state, job and plan hashes) written last. Any
// layout loads it. Folder: <directory>/step-00000100/{shard-00000-of-00002.safetensors, ...,
// manifest.json}.
//
// Saving: a thread of every rank writes its shard, straight from the tensors through a little
// staging memory, while training goes on until the tensors are to change; then a note about it,
// into <directory>/.partial-step-00000100-<n>/; rank 0's thread waits for all notes, writes the
// manifest and renames the folder. What is in a .partial folder never counts. Folders whose names
// begin with a dot belong to the saver: it removes what a dead run left of them.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/ids.h"
#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/comm/world.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"
#include "quadrille/mesh/piece.h"
#include "quadrille/observe/run_record.h"

namespace quadrille {

/// Where a rank's part of a sharded tensor lies: elements [first, first + view's) of the flattened
/// tensor, or the runs that it has where these are not one. The parts of all ranks cover it once; a
/// rank that has none of it has an empty view.
struct TensorPart {
  Shape shape;  ///< Of the whole.
  std::int64_t first = 0;
  std::vector<RunBlock> runs = {};  ///< Empty: one from `first` on.
};

/// One logical tensor: whole and the same on every rank, or this rank's part of it. Names: a
/// parameter's own name; its moments are `optimizer.first_moment.<name>` and
/// `optimizer.second_moment.<name>`.
struct CheckpointTensor {
  std::string name;
  TensorView view;
  std::optional<TensorPart> part = std::nullopt;

  [[nodiscard]] Shape shape() const { return part ? part->shape : view.shape(); }
};

/// What the run's evaluations have found so far, for early stopping and for the best checkpoint.
struct ValidationHistory {
  std::optional<double> best_loss;          ///< Nothing before the first evaluation.
  std::int64_t best_step = 0;               ///< Step of the best loss.
  std::int64_t evaluations_since_best = 0;  ///< Later evaluations that were not better.

  /// Takes up an evaluation; true where it is the best so far.
  bool add(std::int64_t step, double loss);
};

/// Where training stands; everything that is not a tensor.
struct TrainingState {
  std::int64_t step = 0;  ///< Optimizer steps done.
  std::int64_t consumed_tokens = 0;
  std::string job_hash;  ///< Of the parts of the job that determine the numbers.
  std::string plan_hash;
  Json model;             ///< The job's `model` object, to rebuild it for inference.
  Json job;               ///< The whole effective job.
  std::string tokenizer;  ///< As the job names it.
  /// Of what its ids mean; empty in checkpoints that do not say. A tokenizer with files has a copy
  /// of them beside the checkpoints, in `tokenizer`.
  std::string tokenizer_hash;
  ValidationHistory validation;
};

struct SaverOptions {
  std::string directory;
  std::int64_t keep = 3;
  bool keep_best = true;  ///< The state of the best validation loss stays beside the newest.
  bool asynchronous = true;
  Rank rank;
  int ranks = 1;
  Stream* stream = nullptr;
  Pool* pool = nullptr;  ///< Staging (host memory) counts here as workspace; null: nowhere.
  const StopSignal* stop = nullptr;  ///< Outlives the saver; null never stops.
  EventLog* events = nullptr;
  Seconds timeout = Seconds(600);  ///< Rank 0 waits this long for the others' shards.
};

/// How a save ended, on rank 0 (other ranks report their own shard).
struct SaveOutcome {
  std::int64_t step = 0;
  std::optional<Error> error;  ///< A full disk fails the save, not the run.
  Bytes bytes;
  Seconds seconds;
  std::string path;
};

class CheckpointSaver {
 public:
  /// Takes staging for this rank's share of `tensors` (fixed for the run; every rank names the same
  /// tensors in the same order). Whole ones are dealt to the ranks; a rank's parts are its own.
  /// Rank 0 makes the directory and removes what dead runs left in it, so it must be done before
  /// any rank saves: ranks agree on the result of create() before they go on. Errors: kInvalid,
  /// kExhausted (staging), or why the directory cannot be written.
  [[nodiscard]] static Result<std::unique_ptr<CheckpointSaver>> create(
      const SaverOptions& options, std::vector<CheckpointTensor> tensors);
  ~CheckpointSaver();  ///< Waits for a save in flight.

  /// Starts writing the tensors as the operations enqueued so far leave them (or, where saving is
  /// not asynchronous, writes them). They may be read meanwhile, but must not change before
  /// wait_until_read(). A save still in flight is waited for first. Called by every rank at the
  /// same step. A checkpoint of the same step is replaced. A failing disk is an outcome, not an
  /// error.
  [[nodiscard]] Result<void> save(const TrainingState& state);
  /// Returns, with the time that it took, once the tensors may change: a save in flight has read
  /// them or has failed. Errors: kTimeout, kAborted, naming rank, step and directory.
  [[nodiscard]] Result<Seconds> wait_until_read();
  /// Outcomes since the last call; never blocks.
  [[nodiscard]] std::vector<SaveOutcome> poll();
  /// Blocks until nothing is in flight.
  [[nodiscard]] std::vector<SaveOutcome> wait();

 private:
  struct State;
  explicit CheckpointSaver(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Elements of a flattened tensor that lie one after the other in a shard: a run of neighbours, or
/// several runs of equal length and distance (columns of a matrix).
struct ManifestPart {
  Extent extent;         ///< The first run.
  std::string shard;     ///< File name.
  std::string checksum;  ///< hash_text of the part's bytes.
  std::int64_t stride = 0;
  std::int64_t count = 1;  ///< Runs, each `stride` after the one before.

  [[nodiscard]] RunBlock runs() const { return {extent.first, extent.length, stride, count}; }
};

struct ManifestTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<ManifestPart>
      parts;  ///< Without gap or overlap, by their first element; at least one.
};

struct ManifestShard {
  std::string file;  ///< Name within the checkpoint's folder.
  Bytes bytes;
  std::string header_checksum;  ///< Of all before the tensors' bytes.
};

struct Manifest {
  TrainingState state;
  std::vector<ManifestTensor> tensors;
  std::vector<ManifestShard> shards;
  std::string created;  ///< UTC.
};

/// The text of manifest.json, which carries a checksum of itself.
[[nodiscard]] std::string write_manifest(const Manifest& manifest);
/// Errors: kCorrupt naming `file` and what is wrong, kInvalid for a newer version.
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text, const std::string& file);

/// An opened checkpoint folder: manifest read, shard headers checked against it.
class Checkpoint {
 public:
  /// Errors: kNotFound, kCorrupt naming file and what is wrong.
  [[nodiscard]] static Result<Checkpoint> open(const std::string& path);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  [[nodiscard]] const Manifest& manifest() const;
  [[nodiscard]] const std::string& path() const;
  /// Reads one tensor into a view of its dtype and shape, checking its checksum.
  /// Errors: kNotFound (no such tensor), kInvalid (other shape), kCorrupt; the target is then
  /// unspecified.
  [[nodiscard]] Result<void> load(const std::string& name, Stream& stream,
                                  const TensorView& target) const;
  /// Reads a whole tensor or this rank's part of one, whatever parts it was saved in, a piece at a
  /// time. Every saved part of which a byte is needed is checked in full.
  [[nodiscard]] Result<void> load(const CheckpointTensor& tensor, Stream& stream) const;
  /// The same for many at once, in the order in which they lie on the disk.
  [[nodiscard]] Result<void> load(std::span<const CheckpointTensor> tensors, Stream& stream) const;
  /// A whole tensor, checked, into `out` of exactly its size.
  [[nodiscard]] Result<void> read_checked(const ManifestTensor& tensor,
                                          std::span<std::byte> out) const;
  /// Bytes [offset, offset + out.size()) of a tensor as they lie in the files, unchecked.
  [[nodiscard]] Result<void> read(const ManifestTensor& tensor, Bytes offset,
                                  std::span<std::byte> out) const;
  /// Every byte against every checksum.
  [[nodiscard]] Result<void> verify() const;

 private:
  struct State;
  explicit Checkpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct CheckpointListing {
  std::string path;
  std::int64_t step = 0;
  Bytes bytes;
  std::optional<Error> damage;  ///< Of the quick check (manifest, sizes, headers).
};
/// All step folders under `directory` (a checkpoint directory or a run directory), oldest first;
/// damaged ones among them. Errors: kNotFound without such a folder.
[[nodiscard]] Result<std::vector<CheckpointListing>> list_checkpoints(const std::string& directory);

/// The newest checkpoint that verifies in full; damaged newer ones are in `skipped` and stay as
/// they are. A directory that does not exist has none. Errors: what reading a newer one failed
/// with, where it is the disk or a permission that fails: that is no damage to be passed over.
struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint;
  std::vector<CheckpointListing> skipped;
};
[[nodiscard]] Result<NewestCheckpoint> find_newest_valid(const std::string& directory);

/// Loads every tensor; the sets of names must be equal. Errors: kInvalid naming missing and extra
/// ones.
[[nodiscard]] Result<void> load_all(const Checkpoint& checkpoint, Stream& stream,
                                    std::span<const CheckpointTensor> tensors);

/// The first difference of two checkpoints in a sentence, or nothing if their logical state is
/// equal: step, tokens, job hash, model, tokenizer and every bit of every tensor. Layout, plan and
/// how tensors are cut into parts and files do not count. Errors: kCorrupt when one of them is
/// damaged.
[[nodiscard]] Result<std::optional<std::string>> diff_checkpoints(const Checkpoint& a,
                                                                  const Checkpoint& b);

/// `path` may be a checkpoint, a checkpoint directory or a run directory: the newest valid one
/// there, the damaged ones that it passed over in `skipped` where wanted. Errors: kNotFound
/// (nothing there), kCorrupt (only damaged ones, each with its reason).
[[nodiscard]] Result<Checkpoint> resolve_checkpoint(
    const std::string& path, std::vector<CheckpointListing>* skipped = nullptr);

/// The one of the best validation loss that the newest valid checkpoint of `path` knows of. Errors:
/// also kNotFound where the run never evaluated or that checkpoint is not kept.
[[nodiscard]] Result<Checkpoint> resolve_best_checkpoint(
    const std::string& path, std::vector<CheckpointListing>* skipped = nullptr);

}  // namespace quadrille
