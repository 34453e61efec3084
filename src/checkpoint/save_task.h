// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a rank's writer thread does with a snapshot, from the first byte to the rename. It touches
// neither stream nor pool, so training goes on beside it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille::internal {

/// Tensors [first, end) of the list.
struct Share {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// A tensor goes to the rank in whose part of the bytes its middle lies: shares are contiguous,
/// follow from the sizes alone, and differ by no more than the largest tensor.
[[nodiscard]] Share share_of(std::span<const SafetensorsTensor> tensors, Rank rank, int ranks);

[[nodiscard]] Bytes bytes_of(std::span<const SafetensorsTensor> tensors);

[[nodiscard]] std::string shard_name(Rank rank, int ranks);
[[nodiscard]] std::string note_name(Rank rank);

struct SaveTask {
  const SaverOptions* options = nullptr;
  std::span<const SafetensorsTensor> tensors;  ///< All ranks'.
  Share share;                                 ///< This rank's part of them.
  std::span<const std::byte> staging;          ///< The share's bytes, in order.
  TrainingState state;
  std::int64_t attempt = 0;

  [[nodiscard]] std::string partial_path() const;
};

/// Writes this rank's shard. Errors leave the note or the missing folder that makes rank 0 give up.
[[nodiscard]] Result<ShardNote> write_share(const SaveTask& task);

/// Rank 0: waits for the other ranks' notes, then writes the manifest and commits the folder.
[[nodiscard]] Result<Bytes> gather_and_commit(const SaveTask& task, ShardNote own);

/// All of a rank's work for one save. On rank 0 it also records the event and prunes.
[[nodiscard]] SaveOutcome run_save(const SaveTask& task);

}  // namespace quadrille::internal
