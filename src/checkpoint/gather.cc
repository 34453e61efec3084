// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Rank 0's part of a save: wait, check, write the manifest, commit.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <unordered_map>

#include "checkpoint/folders.h"
#include "checkpoint/save_task.h"
#include "quadrille/base/file.h"

namespace quadrille::internal {
namespace {

/// The note of `rank`, once it is there.
Result<ShardNote> wait_for_note(const SaveTask& task, Rank rank, Seconds deadline) {
  const std::string path = task.partial_path() + "/" + note_name(rank);
  auto pause = std::chrono::milliseconds(1);
  while (!path_exists(path)) {
    if (!path_exists(task.partial_path())) {
      return fail(Code::kAborted, "another rank could not write its shard and gave up");
    }
    if (monotonic_now() > deadline) {
      return fail(Code::kTimeout, fmt::format("rank {} has not written its shard within {}",
                                              rank.value, to_text(task.options->timeout)));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
  QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  QD_ASSIGN_OR_RETURN(ShardNote note, parse_note(text, path));
  if (note.error) return fail(with_context(*note.error, fmt::format("rank {}", rank.value)));
  return note;
}

/// The file that the note describes is there, whole.
Result<void> check_shard(const SaveTask& task, const ShardNote& note) {
  QD_ASSIGN_OR_RETURN(const SafetensorsFile file,
                      SafetensorsFile::open(task.partial_path() + "/" + note.shard.file));
  if (file.size() != note.shard.bytes || file.header_checksum() != note.shard.header_checksum) {
    return fail(Code::kCorrupt, "\"" + note.shard.file + "\" is not what its rank wrote");
  }
  return {};
}

/// Every tensor exactly once, as this rank knows it: ranks that disagree about the model fail here.
Result<void> check_complete(const SaveTask& task, const Manifest& manifest) {
  std::unordered_map<std::string_view, const SafetensorsTensor*> expected;
  for (const SafetensorsTensor& tensor : task.tensors) expected.emplace(tensor.name, &tensor);
  for (const ManifestTensor& tensor : manifest.tensors) {
    const auto found = expected.find(tensor.name);
    const bool equal = found != expected.end() &&
                       found->second->dtype == stored_type(tensor.dtype) &&
                       found->second->shape == tensor.shape;
    if (!equal) {
      return fail(Code::kInternal, "tensor \"" + tensor.name + "\" differs between ranks");
    }
    expected.erase(found);
  }
  if (!expected.empty()) {
    return fail(Code::kInternal,
                fmt::format("no rank wrote tensor \"{}\"", expected.begin()->first));
  }
  return {};
}

Result<Bytes> write_manifest_and_commit(const SaveTask& task, const Manifest& manifest) {
  const std::string partial = task.partial_path();
  const std::string text = write_manifest(manifest);
  QD_RETURN_IF_ERROR(write_file_atomically(partial + "/" + std::string(kManifestName), text));
  for (int rank = 1; rank < task.options->ranks; ++rank) {
    std::remove((partial + "/" + note_name(Rank{rank})).c_str());
  }
  QD_RETURN_IF_ERROR(sync_folder(partial));
  QD_RETURN_IF_ERROR(commit_folder(task.options->directory, partial, task.state.step));
  Bytes bytes(static_cast<std::int64_t>(text.size()));
  for (const ManifestShard& shard : manifest.shards) bytes += shard.bytes;
  return bytes;
}

}  // namespace

Result<Bytes> gather_and_commit(const SaveTask& task, ShardNote own) {
  const Seconds deadline = monotonic_now() + task.options->timeout;
  Manifest manifest;
  manifest.state = task.state;
  manifest.created = utc_now_text();
  for (int rank = 0; rank < task.options->ranks; ++rank) {
    ShardNote note;
    if (rank == 0) {
      note = std::move(own);
    } else {
      QD_ASSIGN_OR_RETURN(note, wait_for_note(task, Rank{rank}, deadline));
    }
    QD_RETURN_IF_ERROR(check_shard(task, note));
    manifest.shards.push_back(note.shard);
    manifest.tensors.insert(manifest.tensors.end(), note.tensors.begin(), note.tensors.end());
  }
  QD_RETURN_IF_ERROR(check_complete(task, manifest));
  return write_manifest_and_commit(task, manifest);
}

}  // namespace quadrille::internal
