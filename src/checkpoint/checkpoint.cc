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
#include "checkpoint/part_reader.h"
#include "checkpoint/save_task.h"
#include "quadrille/base/check.h"
#include "quadrille/base/file.h"
#include "quadrille/base/text.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille {
namespace {

using internal::damaged;
using internal::PartToRead;
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

/// The part of a tensor is in its shard as described.
Result<void> check_part(const ManifestTensor& tensor, const ManifestPart& part,
                        const std::string& folder, const SafetensorsFile& shard) {
  const std::string name = internal::name_in_shard(tensor, part);
  const std::string path = folder + "/" + part.shard;
  const SafetensorsTensor* found = shard.find(name);
  if (found == nullptr) return fail(damaged(path, "tensor \"" + name + "\" is missing"));
  const Shape shape = internal::is_one_part(tensor) ? tensor.shape : Shape{part.runs().elements()};
  if (found->dtype == stored_type(tensor.dtype) && found->shape == shape) return {};
  return fail(damaged(
      path, fmt::format("tensor \"{}\" is {}, the manifest says {}", name,
                        form(found->dtype, found->shape), form(stored_type(tensor.dtype), shape))));
}

/// Every tensor of the manifest is in its shards as described, and no shard has another.
Result<void> check_tensors(const Manifest& manifest, const std::string& folder,
                           const ShardMap& shards) {
  std::size_t in_shards = 0;
  std::size_t in_manifest = 0;
  for (const auto& [name, file] : shards) in_shards += file.header().tensors.size();
  for (const ManifestTensor& tensor : manifest.tensors) {
    in_manifest += tensor.parts.size();
    for (const ManifestPart& part : tensor.parts) {
      QD_RETURN_IF_ERROR(check_part(tensor, part, folder, shards.at(part.shard)));
    }
  }
  if (in_shards != in_manifest) {
    return fail(damaged(folder, fmt::format("its shards have {} tensors, the manifest {}",
                                            in_shards, in_manifest)));
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

/// Of bytes that begin at `offset` of the tensor, those that this rank has: a part is read whole.
void upload_wanted(Stream& stream, const CheckpointTensor& tensor, std::int64_t offset,
                   std::span<const std::byte> bytes) {
  const std::int64_t size = element_bytes(tensor.view.dtype());
  // As bytes, because a piece may end inside an element.
  const TensorView target(tensor.view.device(), tensor.view.address(), DType::kU8,
                          {tensor.view.elements() * size});
  std::int64_t in_view = 0;
  for (const RunBlock& runs : internal::runs_of(tensor)) {
    const RunBlock in_bytes{runs.first * size, runs.length * size, runs.stride * size, runs.count};
    for_each_common_run(in_bytes, {offset, static_cast<std::int64_t>(bytes.size())},
                        [&](std::int64_t first, std::int64_t count, std::int64_t in_runs) {
                          stream.upload(bytes.subspan(static_cast<std::size_t>(first - offset),
                                                      static_cast<std::size_t>(count)),
                                        target.flat(in_view + in_runs, count));
                        });
    in_view += in_bytes.elements();
  }
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

  [[nodiscard]] Result<const ManifestTensor*> find(const std::string& name) const;
  /// Reads bytes [offset, offset + out.size()), across parts.
  [[nodiscard]] Result<void> read(const ManifestTensor& tensor, std::int64_t offset,
                                  std::span<std::byte> out) const;
  /// The parts that `runs` touch, in full.
  void add_parts(const ManifestTensor& tensor, std::span<const RunBlock> runs, std::size_t wanted,
                 std::vector<PartToRead>& parts) const;
  void add_all_parts(const ManifestTensor& tensor, std::vector<PartToRead>& parts) const {
    const std::int64_t elements = tensor.shape.elements();
    const RunBlock whole{0, elements, elements, 1};
    add_parts(tensor, {&whole, 1}, 0, parts);
  }
  [[nodiscard]] Result<void> load(std::span<const CheckpointTensor> wanted, Stream& stream) const;
};

Result<const ManifestTensor*> Checkpoint::State::find(const std::string& name) const {
  const auto found = by_name.find(name);
  if (found != by_name.end()) return &manifest.tensors[found->second];
  return fail(Code::kNotFound, "\"" + path + "\" has no tensor \"" + name + "\"");
}

Result<void> Checkpoint::State::read(const ManifestTensor& tensor, std::int64_t offset,
                                     std::span<std::byte> out) const {
  const std::int64_t size = element_bytes(tensor.dtype);
  const Extent range{offset, static_cast<std::int64_t>(out.size())};
  std::int64_t done = 0;
  Result<void> result;
  for (const ManifestPart& part : tensor.parts) {
    const RunBlock runs = part.runs();
    const RunBlock bytes{runs.first * size, runs.length * size, runs.stride * size, runs.count};
    const SafetensorsFile& file = shards.at(part.shard);
    const SafetensorsTensor* place = nullptr;
    for_each_common_run(bytes, range,
                        [&](std::int64_t first, std::int64_t count, std::int64_t in_part) {
                          if (!result) return;
                          if (place == nullptr)
                            place = file.find(internal::name_in_shard(tensor, part));
                          QD_CHECK(place != nullptr);
                          result = file.read(*place, Bytes(in_part),
                                             out.subspan(static_cast<std::size_t>(first - offset),
                                                         static_cast<std::size_t>(count)));
                          done += count;
                        });
    if (!result) return result;
  }
  QD_CHECK(done == range.length);
  return {};
}

void Checkpoint::State::add_parts(const ManifestTensor& tensor, std::span<const RunBlock> runs,
                                  std::size_t wanted, std::vector<PartToRead>& parts) const {
  for (const ManifestPart& part : tensor.parts) {
    const RunBlock has = part.runs();
    if (std::none_of(runs.begin(), runs.end(),
                     [&has](const RunBlock& wants) { return may_overlap(wants, has); })) {
      continue;
    }
    const SafetensorsFile& file = shards.at(part.shard);
    const SafetensorsTensor* place = file.find(internal::name_in_shard(tensor, part));
    QD_CHECK(place != nullptr);
    parts.push_back({&tensor, &part, file.place_of(*place), wanted});
  }
}

Result<void> Checkpoint::State::load(std::span<const CheckpointTensor> wanted,
                                     Stream& stream) const {
  std::vector<PartToRead> parts;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    QD_ASSIGN_OR_RETURN(const ManifestTensor* tensor, find(wanted[i].name));
    if (tensor->dtype != wanted[i].view.dtype() || tensor->shape != wanted[i].shape()) {
      return fail(Code::kInvalid,
                  fmt::format("tensor \"{}\" of \"{}\" is {}, but {} is needed", wanted[i].name,
                              path, form(stored_type(tensor->dtype), tensor->shape),
                              form(stored_type(wanted[i].view.dtype()), wanted[i].shape())));
    }
    add_parts(*tensor, internal::runs_of(wanted[i]), i, parts);
  }
  const auto take = [&](const PartToRead& part, std::int64_t offset,
                        std::span<const std::byte> bytes) {
    upload_wanted(stream, wanted[part.wanted], offset, bytes);
  };
  QD_RETURN_IF_ERROR(internal::read_parts(std::move(parts), path, take));
  return stream.synchronize();
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
  return state_->read(tensor, offset.count(), out);
}

Result<void> Checkpoint::read_checked(const ManifestTensor& tensor,
                                      std::span<std::byte> out) const {
  QD_CHECK(static_cast<std::int64_t>(out.size()) ==
           tensor.shape.elements() * element_bytes(tensor.dtype));
  std::vector<PartToRead> parts;
  state_->add_all_parts(tensor, parts);
  return internal::read_parts(
      std::move(parts), state_->path,
      [out](const PartToRead&, std::int64_t offset, std::span<const std::byte> bytes) {
        std::copy(bytes.begin(), bytes.end(), out.begin() + offset);
      });
}

Result<void> Checkpoint::load(const std::string& name, Stream& stream,
                              const TensorView& target) const {
  return load({name, target}, stream);
}

Result<void> Checkpoint::load(const CheckpointTensor& tensor, Stream& stream) const {
  return state_->load({&tensor, 1}, stream);
}

Result<void> Checkpoint::load(std::span<const CheckpointTensor> tensors, Stream& stream) const {
  return state_->load(tensors, stream);
}

Result<void> Checkpoint::verify() const {
  std::vector<PartToRead> parts;
  for (const ManifestTensor& tensor : state_->manifest.tensors) {
    state_->add_all_parts(tensor, parts);
  }
  return internal::read_parts(std::move(parts), state_->path, [](auto&, auto, auto) {});
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
  return checkpoint.load(tensors, stream);
}

}  // namespace quadrille
