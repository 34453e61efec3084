// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a rank's writer thread does for one save, from the first byte to the rename. It reads the
// tensors through a stream of its own and leaves the pool alone, so training goes on beside it
// until the tensors are to change.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille::internal {

/// What a rank writes of tensor `tensor` of the list: runs of it, which lie one after the other
/// from element `in_view` of what the rank has.
struct SavedPart {
  std::size_t tensor = 0;
  RunBlock runs;
  std::int64_t in_view = 0;
};

/// Of the flattened whole, those that the tensor's view has, in its order.
[[nodiscard]] std::vector<RunBlock> runs_of(const CheckpointTensor& tensor);

/// This rank's parts, in the order of the tensors. Of those that every rank has whole, each goes to
/// the rank in whose part of their bytes its middle lies: what a rank gets is contiguous, follows
/// from the sizes alone, and differs by no more than the largest tensor. A rank's part of a sharded
/// tensor is its own.
[[nodiscard]] std::vector<SavedPart> parts_to_save(std::span<const CheckpointTensor> tensors,
                                                   Rank rank, int ranks);

[[nodiscard]] Bytes bytes_of(std::span<const SafetensorsTensor> tensors);

[[nodiscard]] std::string shard_name(Rank rank, int ranks);
[[nodiscard]] std::string note_name(Rank rank);

struct SaveTask {
  const SaverOptions* options = nullptr;
  std::span<const SafetensorsTensor> tensors;  ///< The whole ones.
  std::span<const CheckpointTensor> sources;   ///< The same, as this rank has them.
  std::span<const SavedPart> parts;            ///< What this rank writes of them.
  Stream* stream = nullptr;                    ///< Of the writer alone.
  std::span<std::byte> staging;                ///< What the parts' bytes pass through.
  TrainingState state;
  std::int64_t attempt = 0;
  /// Called once no tensor is read any more: all are, or the save has failed.
  std::function<void()> on_read;

  [[nodiscard]] std::string partial_path() const;
  [[nodiscard]] Bytes share() const;  ///< Of the parts.
};

/// Writes this rank's shard. Errors leave the note or the missing folder that makes rank 0 give up.
[[nodiscard]] Result<ShardNote> write_share(const SaveTask& task);

/// Rank 0: waits for the other ranks' notes, then writes the manifest and commits the folder.
[[nodiscard]] Result<Bytes> gather_and_commit(const SaveTask& task, ShardNote own);

/// All of a rank's work for one save. On rank 0 it also records the event and prunes.
[[nodiscard]] SaveOutcome run_save(const SaveTask& task);

}  // namespace quadrille::internal
