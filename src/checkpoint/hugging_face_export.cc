// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A checkpoint as a Hugging Face folder, written aside and renamed at the end.

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "checkpoint/fields.h"
#include "checkpoint/hugging_face_layout.h"
#include "checkpoint/tokenizer_files.h"
#include "quadrille/base/file.h"
#include "quadrille/checkpoint/hugging_face.h"
#include "quadrille/config/hugging_face.h"
#include "quadrille/config/job_reader.h"

namespace quadrille {
namespace {

using internal::HuggingFacePlace;

/// A tensor to write; one without a source is all zeros.
struct Outgoing {
  HuggingFacePlace place;
  const ManifestTensor* source = nullptr;
};

struct OutgoingShard {
  std::vector<Outgoing> tensors;
  Bytes bytes;
};

Result<std::vector<Outgoing>> outgoing_tensors(const Checkpoint& checkpoint,
                                               const ModelSpec& model) {
  std::map<std::string_view, const ManifestTensor*> stored;
  for (const ManifestTensor& tensor : checkpoint.manifest().tensors) {
    stored.emplace(tensor.name, &tensor);
  }
  std::vector<Outgoing> outgoing;
  for (const ParameterShape& parameter : parameter_shapes(model)) {
    const auto found = stored.find(parameter.name);
    const bool fits = found != stored.end() && found->second->dtype == DType::kF32 &&
                      found->second->shape == internal::shape_of(parameter);
    if (!fits) {
      return fail(internal::damaged(
          checkpoint.path(), "it has no parameter " + parameter.name + " of its model's shape"));
    }
    outgoing.push_back({internal::hugging_face_place(model, parameter), found->second});
  }
  for (HuggingFacePlace& place : internal::missing_biases(model)) {
    outgoing.push_back({std::move(place), nullptr});
  }
  return outgoing;
}

Bytes bytes_of(const Outgoing& tensor) {
  return Bytes(tensor.place.shape.elements() * element_bytes(StoredType::kF32));
}

/// In order; a file is as full as it may be, and one tensor at least is in each.
std::vector<OutgoingShard> split_into_shards(std::vector<Outgoing> tensors, Bytes most) {
  std::vector<OutgoingShard> shards(1);
  for (Outgoing& tensor : tensors) {
    const Bytes bytes = bytes_of(tensor);
    if (!shards.back().tensors.empty() && shards.back().bytes + bytes > most) {
      shards.emplace_back();
    }
    shards.back().bytes += bytes;
    shards.back().tensors.push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return std::string(internal::kHuggingFaceWeights);
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

/// The tensor's values as they stand in the file, after their checksum held.
Result<std::vector<float>> read_values(const Checkpoint& checkpoint, const Outgoing& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.place.shape.elements()));
  if (tensor.source == nullptr) return values;
  QD_RETURN_IF_ERROR(
      checkpoint.read_checked(*tensor.source, std::as_writable_bytes(std::span(values))));
  return tensor.place.transposed ? internal::transposed(values, tensor.source->shape) : values;
}

Result<void> write_shard(const Checkpoint& checkpoint, const OutgoingShard& shard,
                         const std::string& path) {
  std::vector<SafetensorsTensor> header;
  for (const Outgoing& tensor : shard.tensors) {
    header.push_back({tensor.place.name, StoredType::kF32, tensor.place.shape, Bytes(0)});
  }
  QD_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(path, header));
  for (const Outgoing& tensor : shard.tensors) {
    QD_ASSIGN_OR_RETURN(const std::vector<float> values, read_values(checkpoint, tensor));
    QD_RETURN_IF_ERROR(writer.append(std::as_bytes(std::span(values))));
  }
  return writer.close();
}

Result<void> write_index(const std::vector<OutgoingShard>& shards, const std::string& folder) {
  Bytes total;
  std::vector<Json::Member> map;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    total += shards[i].bytes;
    for (const Outgoing& tensor : shards[i].tensors) {
      map.emplace_back(tensor.place.name, shard_name(i, shards.size()));
    }
  }
  Json index = Json::object();
  index.set("metadata", Json::object().set("total_size", total.count()));
  index.set("weight_map", Json::object(std::move(map)));
  return write_file_atomically(folder + "/" + std::string(internal::kHuggingFaceIndex),
                               write_json(index, 2) + "\n");
}

/// The folder without slashes at its end, and where it is written until it is whole: beside it, so
/// that a rename moves it.
struct Places {
  std::string folder;
  std::string partial;
};

Result<Places> places_of(const std::string& folder) {
  const std::filesystem::path place =
      std::filesystem::path(folder + "/").lexically_normal().parent_path();
  if (path_exists(folder)) {
    const auto names = list_folder(folder);
    if (!names || !names->empty()) {
      return fail(Code::kInvalid, "\"" + folder + "\" exists already; give a new or empty folder");
    }
  }
  const std::string name = ".partial-" + place.filename().string();
  return Places{place.string(), (place.parent_path() / name).string()};
}

Result<ExportOutcome> write_folder(const Checkpoint& checkpoint, const JobSpec& job,
                                   const ExportOptions& options, const std::string& partial) {
  ExportOutcome outcome;
  QD_ASSIGN_OR_RETURN(std::vector<Outgoing> tensors, outgoing_tensors(checkpoint, job.model));
  const auto shards = split_into_shards(std::move(tensors), options.shard);
  for (const OutgoingShard& shard : shards) outcome.bytes += shard.bytes;
  QD_ASSIGN_OR_RETURN(const Bytes available, free_space(partial));
  if (available < outcome.bytes) {
    return fail(Code::kExhausted,
                fmt::format("\"{}\" has {} left, the weights need {}", options.folder,
                            to_text(available), to_text(outcome.bytes)));
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    outcome.files.push_back(shard_name(i, shards.size()));
    QD_RETURN_IF_ERROR(write_shard(checkpoint, shards[i], partial + "/" + outcome.files.back()));
  }
  if (shards.size() > 1) QD_RETURN_IF_ERROR(write_index(shards, partial));
  const auto folders =
      internal::tokenizer_folders(checkpoint.path(), checkpoint.manifest().state.tokenizer);
  QD_ASSIGN_OR_RETURN(outcome.tokenizer_files, internal::copy_tokenizer_files(folders, partial));
  QD_RETURN_IF_ERROR(
      write_file_atomically(partial + "/" + std::string(internal::kHuggingFaceConfig),
                            write_json(hugging_face_config(job.model), 2) + "\n"));
  return outcome;
}

}  // namespace

Result<ExportOutcome> export_hugging_face(const Checkpoint& checkpoint,
                                          const ExportOptions& options) {
  QD_ASSIGN_OR_RETURN(const JobSpec job,
                      parse_job({.file = checkpoint.path() + "/manifest.json",
                                 .text = write_json(checkpoint.manifest().state.job),
                                 .expand_globs = false}));
  if (job.model.is_custom()) {
    return fail(Code::kInvalid, "\"" + checkpoint.path() +
                                    "\" is of a program's own model, which transformers "
                                    "does not have");
  }
  QD_ASSIGN_OR_RETURN(const Places places, places_of(options.folder));
  QD_RETURN_IF_ERROR(remove_tree(places.partial));
  QD_RETURN_IF_ERROR(make_folders(places.partial));
  auto outcome = write_folder(checkpoint, job, options, places.partial);
  if (outcome) {
    Result<void> moved = sync_folder(places.partial);
    if (moved) moved = rename_durably(places.partial, places.folder);
    if (!moved) outcome = fail(moved.error());
  }
  if (!outcome) (void)remove_tree(places.partial);
  return outcome;
}

}  // namespace quadrille
