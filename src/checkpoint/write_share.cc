// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "checkpoint/folders.h"
#include "checkpoint/save_task.h"
#include "checkpoint/streamed_file.h"
#include "quadrille/base/check.h"
#include "quadrille/base/file.h"
#include "quadrille/base/hash.h"

namespace quadrille::internal {
namespace {

/// Room for headers, notes and manifest beside the tensors' bytes.
constexpr Bytes kOverhead = Bytes(256 << 10);

/// Read, hashed and passed on at once: it stays in a core's own cache meanwhile.
constexpr std::size_t kCachedPiece = std::size_t{256} << 10;

/// Bytes of the files that are already in the folder.
Bytes written_so_far(const std::string& folder) {
  Bytes total;
  const auto names = list_folder(folder);
  if (!names) return total;
  for (const std::string& name : *names) {
    // Another rank may rename its note meanwhile: what has gone counts as nothing.
    std::error_code gone;
    const auto size = std::filesystem::file_size(folder + "/" + name, gone);
    if (!gone) total += Bytes(static_cast<std::int64_t>(size));
  }
  return total;
}

/// Rank 0 looks at the space for all shards less what is already there, the others at their own;
/// so a save that cannot fit fails before it has filled the disk. The space is asked for first:
/// what other ranks write in between can only make this check milder.
Result<void> check_space(const SaveTask& task) {
  QD_ASSIGN_OR_RETURN(const Bytes available, free_space(task.options->directory));
  Bytes needed = task.share() + kOverhead;
  if (task.options->rank.value == 0) {
    needed = bytes_of(task.tensors) + kOverhead - written_so_far(task.partial_path());
  }
  if (needed <= available) return {};
  return fail(Code::kExhausted,
              fmt::format("\"{}\" has {} left, the checkpoint needs {}", task.options->directory,
                          to_text(available), to_text(needed)));
}

/// The rank's parts as a manifest has them, still without checksums.
std::vector<ManifestTensor> described(const SaveTask& task, const std::string& file) {
  std::vector<ManifestTensor> all;
  for (const SavedPart& part : task.parts) {
    const SafetensorsTensor& tensor = task.tensors[part.tensor];
    all.push_back(
        {tensor.name,
         tensor_dtype(tensor.dtype).value(),
         tensor.shape,
         {ManifestPart{
             {part.runs.first, part.runs.length}, file, {}, part.runs.stride, part.runs.count}}});
  }
  return all;
}

std::vector<SafetensorsTensor> header_of(const std::vector<ManifestTensor>& tensors) {
  std::vector<SafetensorsTensor> header;
  for (const ManifestTensor& tensor : tensors) {
    const ManifestPart& part = tensor.parts.front();
    const Shape shape = is_one_part(tensor) ? tensor.shape : Shape{part.runs().elements()};
    header.push_back({name_in_shard(tensor, part), stored_type(tensor.dtype), shape, Bytes(0)});
  }
  return header;
}

TensorView part_view(const SaveTask& task, const SavedPart& part) {
  return task.sources[part.tensor].view.flat(part.in_view, part.runs.elements());
}

/// A tensor's bytes into the file, and their checksum.
Result<std::string> write_tensor(Stream& stream, const TensorView& tensor, StreamedFile& file) {
  const std::int64_t total = tensor.bytes().count();
  // As bytes, because the room in the file may end inside an element.
  const TensorView bytes(tensor.device(), tensor.address(), DType::kU8, {total});
  Hasher hasher;
  for (std::int64_t done = 0; done < total;) {
    QD_ASSIGN_OR_RETURN(const std::span<std::byte> room, file.room());
    const auto piece =
        room.first(std::min({room.size(), kCachedPiece, static_cast<std::size_t>(total - done)}));
    const auto count = static_cast<std::int64_t>(piece.size());
    stream.download(bytes.flat(done, count), piece);
    QD_RETURN_IF_ERROR(stream.synchronize());
    hasher.add(piece);
    file.filled(piece.size());
    done += count;
  }
  return hash_text(hasher.digest());
}

Result<ShardNote> write_shard(const SaveTask& task) {
  QD_RETURN_IF_ERROR(make_folders(task.partial_path()));
  QD_RETURN_IF_ERROR(check_space(task));
  ShardNote note;
  note.shard.file = shard_name(task.options->rank, task.options->ranks);
  note.tensors = described(task, note.shard.file);
  const std::string header = write_safetensors_header(header_of(note.tensors));
  QD_ASSIGN_OR_RETURN(
      StreamedFile file,
      StreamedFile::create(task.partial_path() + "/" + note.shard.file, task.staging));
  QD_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(header))));
  for (std::size_t i = 0; i < task.parts.size(); ++i) {
    QD_ASSIGN_OR_RETURN(note.tensors[i].parts.front().checksum,
                        write_tensor(*task.stream, part_view(task, task.parts[i]), file));
  }
  task.on_read();
  QD_RETURN_IF_ERROR(file.close());
  note.shard.bytes = Bytes(static_cast<std::int64_t>(header.size())) + task.share();
  note.shard.header_checksum = hash_text(hash64(header));
  return note;
}

/// Tells rank 0 that there will be no shard. The shard goes first, to make room for the note on a
/// full disk. If even the note does not fit, an empty one says the same, and if there is no room
/// for its name, the folder goes (which rank 0 misses only if it has yet to make the folder).
void report_failure(const SaveTask& task, const Error& error) {
  const std::string partial = task.partial_path();
  std::remove((partial + "/" + shard_name(task.options->rank, task.options->ranks)).c_str());
  ShardNote note;
  note.error = error;
  const std::string path = partial + "/" + note_name(task.options->rank);
  if (make_folders(partial)) {
    if (write_file_atomically(path, write_note(note))) return;
    if (std::ofstream(path).is_open()) return;
  }
  (void)remove_tree(partial);
}

}  // namespace

std::vector<RunBlock> runs_of(const CheckpointTensor& tensor) {
  const std::int64_t elements = tensor.view.elements();
  if (tensor.view.empty()) return {};
  if (tensor.part && !tensor.part->runs.empty()) return tensor.part->runs;
  return {{tensor.part ? tensor.part->first : 0, elements, elements, 1}};
}

std::vector<SavedPart> parts_to_save(std::span<const CheckpointTensor> tensors, Rank rank,
                                     int ranks) {
  QD_CHECK(rank.value >= 0 && rank.value < ranks);
  std::int64_t total = 0;
  for (const CheckpointTensor& tensor : tensors) {
    if (!tensor.part) total += tensor.view.bytes().count();
  }
  std::vector<SavedPart> parts;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const CheckpointTensor& tensor = tensors[i];
    if (tensor.part) {
      std::int64_t in_view = 0;
      for (const RunBlock& runs : runs_of(tensor)) {
        parts.push_back({i, runs, in_view});
        in_view += runs.elements();
      }
      continue;
    }
    const std::int64_t bytes = tensor.view.bytes().count();
    const auto middle = static_cast<__int128>(before) + bytes / 2;
    const auto owner = total == 0 ? 0 : static_cast<int>(middle * ranks / (total + 1));
    if (owner == rank.value) {
      const std::int64_t elements = tensor.view.elements();
      parts.push_back({i, {0, elements, elements, 1}, 0});
    }
    before += bytes;
  }
  return parts;
}

Bytes bytes_of(std::span<const SafetensorsTensor> tensors) {
  Bytes total;
  for (const SafetensorsTensor& tensor : tensors) total += tensor.bytes();
  return total;
}

std::string shard_name(Rank rank, int ranks) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", rank.value, ranks);
}

std::string note_name(Rank rank) { return fmt::format("shard-{:05}.json", rank.value); }

Bytes SaveTask::share() const {
  Bytes total;
  for (const SavedPart& part : parts) {
    total += Bytes(part.runs.elements()) * element_bytes(sources[part.tensor].view.dtype());
  }
  return total;
}

std::string SaveTask::partial_path() const {
  return options->directory + "/" + partial_folder_name(state.step, attempt);
}

Result<ShardNote> write_share(const SaveTask& task) {
  auto note = write_shard(task);
  if (!note) task.on_read();
  if (note && task.options->rank.value != 0) {
    const std::string path = task.partial_path() + "/" + note_name(task.options->rank);
    if (auto written = write_file_atomically(path, write_note(*note)); !written) {
      note = fail(std::move(written).error());
    }
  }
  if (!note) report_failure(task, note.error());
  return note;
}

}  // namespace quadrille::internal
