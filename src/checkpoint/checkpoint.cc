// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "checkpoint/fields.h"
#include "checkpoint/folders.h"
#include "checkpoint/manifest.h"
#include "checkpoint/plain_file.h"
#include "quadrille/base/check.h"
#include "quadrille/base/file.h"
#include "quadrille/base/hash.h"
#include "quadrille/base/text.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille {
namespace {

using internal::damaged;
using ShardMap = std::unordered_map<std::string, SafetensorsFile>;

std::string form(StoredType dtype, const Shape& shape) {
  return fmt::format("{} {}", kStoredTypeText.text(dtype), shape.to_text());
}

Result<SafetensorsFile> open_shard(const std::string& folder, const ManifestShard& shard) {
  const std::string path = folder + "/" + shard.file;
  auto file = SafetensorsFile::open(path);
  if (!file) {
    if (file.error().code == Code::kNotFound) return fail(damaged(path, "it is missing"));
    return file;
  }
  if (file->size() != shard.bytes) {
    return fail(damaged(path, fmt::format("it has {} bytes, the manifest says {}",
                                          file->size().count(), shard.bytes.count())));
  }
  if (file->header_checksum() != shard.header_checksum) {
    return fail(damaged(path, "the checksum of its header is wrong"));
  }
  return file;
}

/// Every tensor of the manifest is in its shard as described, and no shard has another.
Result<void> check_tensors(const Manifest& manifest, const std::string& folder,
                           const ShardMap& shards) {
  std::size_t in_shards = 0;
  for (const auto& [name, file] : shards) in_shards += file.header().tensors.size();
  for (const ManifestTensor& tensor : manifest.tensors) {
    const SafetensorsTensor* found = shards.at(tensor.shard).find(tensor.name);
    const std::string path = folder + "/" + tensor.shard;
    if (found == nullptr) {
      return fail(damaged(path, "tensor \"" + tensor.name + "\" is missing"));
    }
    if (found->dtype != stored_type(tensor.dtype) || found->shape != tensor.shape) {
      return fail(damaged(path, fmt::format("tensor \"{}\" is {}, the manifest says {}",
                                            tensor.name, form(found->dtype, found->shape),
                                            form(stored_type(tensor.dtype), tensor.shape))));
    }
  }
  if (in_shards != manifest.tensors.size()) {
    return fail(damaged(folder, fmt::format("its shards have {} tensors, the manifest {}",
                                            in_shards, manifest.tensors.size())));
  }
  return {};
}

/// A folder named step-N holds the checkpoint of step N; any other name may hold any.
Result<void> check_step(const std::string& path, const Manifest& manifest) {
  const std::string name = std::filesystem::path(path).lexically_normal().filename().string();
  const auto step = internal::step_of(name);
  if (step && *step != manifest.state.step) {
    return fail(damaged(path, fmt::format("its manifest is of step {}", manifest.state.step)));
  }
  return {};
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

struct Checkpoint::State {
  std::string path;
  Manifest manifest;
  ShardMap shards;
  std::unordered_map<std::string_view, std::size_t> by_name;

  /// Reads a tensor in pieces, hands each to `take(offset, bytes)`, and checks the whole.
  template <class Take>
  Result<void> read_checked(const ManifestTensor& tensor, Take take) const;
};

template <class Take>
Result<void> Checkpoint::State::read_checked(const ManifestTensor& tensor, Take take) const {
  const SafetensorsFile& file = shards.at(tensor.shard);
  const SafetensorsTensor* place = file.find(tensor.name);
  QD_CHECK(place != nullptr);
  const std::int64_t total = place->bytes().count();
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::min<std::int64_t>(total, internal::kPieceBytes)));
  Hasher hasher;
  for (std::int64_t done = 0; done < total;) {
    const auto count = std::min(piece.size(), static_cast<std::size_t>(total - done));
    const auto bytes = std::span(piece).first(count);
    QD_RETURN_IF_ERROR(file.read(*place, Bytes(done), bytes));
    hasher.add(bytes);
    take(done, std::span<const std::byte>(bytes));
    done += static_cast<std::int64_t>(count);
  }
  if (hash_text(hasher.digest()) != tensor.checksum) {
    return fail(damaged(path + "/" + tensor.shard,
                        "the checksum of tensor \"" + tensor.name + "\" is wrong"));
  }
  return {};
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = without_slashes(path);
  const std::string manifest_path = state->path + "/" + std::string(internal::kManifestName);
  if (!path_exists(state->path)) return fail(Code::kNotFound, "\"" + path + "\" does not exist");
  if (!path_exists(manifest_path)) return fail(damaged(path, "it has no manifest.json"));
  QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(manifest_path));
  QD_ASSIGN_OR_RETURN(state->manifest, parse_manifest(text, manifest_path));
  QD_RETURN_IF_ERROR(check_step(state->path, state->manifest));
  for (const ManifestShard& shard : state->manifest.shards) {
    QD_ASSIGN_OR_RETURN(SafetensorsFile file, open_shard(state->path, shard));
    state->shards.emplace(shard.file, std::move(file));
  }
  QD_RETURN_IF_ERROR(check_tensors(state->manifest, state->path, state->shards));
  for (std::size_t i = 0; i < state->manifest.tensors.size(); ++i) {
    state->by_name.emplace(state->manifest.tensors[i].name, i);
  }
  return Checkpoint(std::move(state));
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const Manifest& Checkpoint::manifest() const { return state_->manifest; }
const std::string& Checkpoint::path() const { return state_->path; }

Result<void> Checkpoint::read(const ManifestTensor& tensor, Bytes offset,
                              std::span<std::byte> out) const {
  const SafetensorsFile& file = state_->shards.at(tensor.shard);
  const SafetensorsTensor* place = file.find(tensor.name);
  QD_CHECK(place != nullptr);
  return file.read(*place, offset, out);
}

Result<void> Checkpoint::load(const std::string& name, Stream& stream,
                              const TensorView& target) const {
  const auto found = state_->by_name.find(name);
  if (found == state_->by_name.end()) {
    return fail(Code::kNotFound, "\"" + state_->path + "\" has no tensor \"" + name + "\"");
  }
  const ManifestTensor& tensor = state_->manifest.tensors[found->second];
  if (tensor.dtype != target.dtype() || tensor.shape != target.shape()) {
    return fail(Code::kInvalid,
                fmt::format("tensor \"{}\" of \"{}\" is {}, but {} is needed", name, state_->path,
                            form(stored_type(tensor.dtype), tensor.shape),
                            form(stored_type(target.dtype()), target.shape())));
  }
  const std::int64_t size = element_bytes(tensor.dtype);
  QD_RETURN_IF_ERROR(
      state_->read_checked(tensor, [&](std::int64_t offset, std::span<const std::byte> bytes) {
        const auto count = static_cast<std::int64_t>(bytes.size());
        stream.upload(bytes, target.flat(offset / size, count / size));
      }));
  return stream.synchronize();
}

Result<void> Checkpoint::verify() const {
  for (const ManifestTensor& tensor : state_->manifest.tensors) {
    QD_RETURN_IF_ERROR(state_->read_checked(tensor, [](auto, auto) {}));
  }
  return {};
}

Result<void> load_all(const Checkpoint& checkpoint, Stream& stream,
                      std::span<const CheckpointTensor> tensors) {
  std::unordered_map<std::string_view, bool> wanted;  // and whether the checkpoint has it
  for (const CheckpointTensor& tensor : tensors) wanted.emplace(tensor.name, false);
  std::vector<std::string> missing;
  std::vector<std::string> extra;
  for (const ManifestTensor& tensor : checkpoint.manifest().tensors) {
    const auto found = wanted.find(tensor.name);
    if (found == wanted.end()) {
      extra.push_back(tensor.name);
    } else {
      found->second = true;
    }
  }
  for (const CheckpointTensor& tensor : tensors) {
    if (!wanted.at(tensor.name)) missing.push_back(tensor.name);
  }
  if (!missing.empty() || !extra.empty()) {
    return fail(Code::kInvalid,
                fmt::format("\"{}\" is of another model: {}{}{}{}{}", checkpoint.path(),
                            missing.empty() ? "" : "it lacks ", join(missing, ", "),
                            missing.empty() || extra.empty() ? "" : "; ",
                            extra.empty() ? "" : "it also has ", join(extra, ", ")));
  }
  for (const CheckpointTensor& tensor : tensors) {
    QD_RETURN_IF_ERROR(checkpoint.load(tensor.name, stream, tensor.view));
  }
  return {};
}

}  // namespace quadrille
