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
  if (text.empty()) {
    return fail(Code::kExhausted,
                fmt::format("rank {} could not write its shard, nor the reason", rank.value));
  }
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

/// The ranks' parts as tensors in the model's order, each covered once: ranks that disagree about
/// the model or the layout fail here.
Result<std::vector<ManifestTensor>> merge(const SaveTask& task, std::vector<ManifestTensor> parts) {
  std::unordered_map<std::string_view, std::size_t> places;
  std::vector<ManifestTensor> merged;
  for (const SafetensorsTensor& tensor : task.tensors) {
    places.emplace(tensor.name, merged.size());
    merged.push_back({tensor.name, tensor_dtype(tensor.dtype).value(), tensor.shape, {}});
  }
  for (ManifestTensor& part : parts) {
    const auto found = places.find(part.name);
    const bool equal = found != places.end() && merged[found->second].dtype == part.dtype &&
                       merged[found->second].shape == part.shape;
    if (!equal) {
      return fail(Code::kInternal, "tensor \"" + part.name + "\" differs between ranks");
    }
    auto& all = merged[found->second].parts;
    all.insert(all.end(), part.parts.begin(), part.parts.end());
  }
  for (ManifestTensor& tensor : merged) {
    std::sort(tensor.parts.begin(), tensor.parts.end(),
              [](const auto& a, const auto& b) { return a.extent.first < b.extent.first; });
    if (tensor.parts.empty()) {
      return fail(Code::kInternal, fmt::format("no rank wrote tensor \"{}\"", tensor.name));
    }
    if (auto covered = check_cover(tensor); !covered) {
      return fail(Code::kInternal, covered.error().message);
    }
  }
  return merged;
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
  std::vector<ManifestTensor> parts;
  for (int rank = 0; rank < task.options->ranks; ++rank) {
    ShardNote note;
    if (rank == 0) {
      note = std::move(own);
    } else {
      QD_ASSIGN_OR_RETURN(note, wait_for_note(task, Rank{rank}, deadline));
    }
    QD_RETURN_IF_ERROR(check_shard(task, note));
    manifest.shards.push_back(note.shard);
    parts.insert(parts.end(), note.tensors.begin(), note.tensors.end());
  }
  QD_ASSIGN_OR_RETURN(manifest.tensors, merge(task, std::move(parts)));
  return write_manifest_and_commit(task, manifest);
}

}  // namespace quadrille::internal
