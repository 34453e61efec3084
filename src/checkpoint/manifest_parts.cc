// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include <array>

#include "checkpoint/fields.h"
#include "checkpoint/manifest.h"

namespace quadrille::internal {
namespace {

/// A name and not a path: a manifest must not lead out of its folder.
Result<std::string> file_field(const Json& json, std::string_view key) {
  auto name = string_field(json, key);
  if (!name) return name;
  const bool hidden = name->empty() || name->front() == '.';
  if (hidden || name->find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    return fail(Code::kCorrupt, "\"" + *name + "\" is no name of a shard");
  }
  return name;
}

constexpr std::array kCodes = {Code::kInvalid,     Code::kNotFound, Code::kExhausted,
                               Code::kUnavailable, Code::kTimeout,  Code::kCorrupt,
                               Code::kAborted,     Code::kInternal};

Code code_from(std::string_view text) {
  for (const Code code : kCodes) {
    if (to_text(code) == text) return code;
  }
  return Code::kInternal;
}

Result<ShardNote> note_from(const Json& json) {
  ShardNote note;
  if (json.find("error") != nullptr) {
    QD_ASSIGN_OR_RETURN(const Json* error, object_field(json, "error"));
    QD_ASSIGN_OR_RETURN(const std::string code, string_field(*error, "code"));
    QD_ASSIGN_OR_RETURN(std::string message, string_field(*error, "message"));
    note.error = Error{code_from(code), std::move(message), {}};
    return note;
  }
  QD_ASSIGN_OR_RETURN(const Json* shard, object_field(json, "shard"));
  QD_ASSIGN_OR_RETURN(note.shard, manifest_shard_from(*shard));
  QD_ASSIGN_OR_RETURN(const Json* tensors, array_field(json, "tensors"));
  for (const Json& entry : tensors->elements()) {
    QD_ASSIGN_OR_RETURN(ManifestTensor tensor, manifest_tensor_from(entry));
    note.tensors.push_back(std::move(tensor));
  }
  return note;
}

Result<ManifestPart> part_from(const Json& json, Extent extent) {
  ManifestPart part;
  part.extent = extent;
  part.stride = extent.length;
  QD_ASSIGN_OR_RETURN(part.shard, file_field(json, "shard"));
  QD_ASSIGN_OR_RETURN(part.checksum, string_field(json, "checksum"));
  return part;
}

/// Columns have several runs, all within the tensor.
Result<void> read_runs(const Json& json, std::int64_t elements, ManifestPart& part) {
  if (json.find("runs") == nullptr) return {};
  QD_ASSIGN_OR_RETURN(part.count, count_field(json, "runs"));
  QD_ASSIGN_OR_RETURN(part.stride, count_field(json, "stride"));
  const std::int64_t rest = elements - part.extent.first - part.extent.length;
  const bool fits = part.extent.length >= 1 && part.count >= 1 &&
                    part.stride >= part.extent.length && part.count - 1 <= rest / part.stride;
  if (fits) return {};
  return fail(
      Code::kCorrupt,
      fmt::format("{} runs of {} elements, {} apart, from {} are no part of a tensor of {}",
                  part.count, part.extent.length, part.stride, part.extent.first, elements));
}

/// Extents within the tensor, so that nothing later can overflow. Whether they cover it is asked of
/// a manifest, not of the note of one rank.
Result<std::vector<ManifestPart>> parts_from(const Json& json, std::int64_t elements) {
  std::vector<ManifestPart> parts;
  if (json.find("parts") == nullptr) {
    QD_ASSIGN_OR_RETURN(ManifestPart whole, part_from(json, {0, elements}));
    parts.push_back(std::move(whole));
    return parts;
  }
  QD_ASSIGN_OR_RETURN(const Json* list, array_field(json, "parts"));
  for (const Json& entry : list->elements()) {
    QD_ASSIGN_OR_RETURN(const std::int64_t first, count_field(entry, "first"));
    QD_ASSIGN_OR_RETURN(const std::int64_t length, count_field(entry, "length"));
    if (first > elements || length > elements - first) {
      return fail(Code::kCorrupt, fmt::format("a part of {} elements from {} leaves a tensor of {}",
                                              length, first, elements));
    }
    QD_ASSIGN_OR_RETURN(ManifestPart part, part_from(entry, {first, length}));
    QD_RETURN_IF_ERROR(read_runs(entry, elements, part));
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return fail(Code::kCorrupt, "\"parts\" is empty");
  return parts;
}

}  // namespace

namespace {

/// More runs than this are not looked at one by one: no placement makes them.
constexpr std::int64_t kMostRuns = std::int64_t{1} << 24;

/// All runs of all parts, by their first elements; parts of one run each as they stand.
Result<std::vector<Extent>> runs_of(const ManifestTensor& tensor) {
  std::int64_t count = 0;
  bool columns = false;
  for (const ManifestPart& part : tensor.parts) {
    count += std::min(part.count, kMostRuns + 1);
    columns = columns || part.count > 1;
    if (count > kMostRuns) {
      return fail(Code::kCorrupt, "tensor \"" + tensor.name + "\" has more than 2^24 runs");
    }
  }
  std::vector<Extent> runs;
  runs.reserve(static_cast<std::size_t>(count));
  for (const ManifestPart& part : tensor.parts) {
    for (std::int64_t run = 0; run < part.count; ++run) {
      runs.push_back({part.extent.first + run * part.stride, part.extent.length});
    }
  }
  if (columns) {
    std::sort(runs.begin(), runs.end(),
              [](const Extent& a, const Extent& b) { return a.first < b.first; });
  }
  return runs;
}

}  // namespace

Result<void> check_cover(const ManifestTensor& tensor) {
  QD_ASSIGN_OR_RETURN(const std::vector<Extent> runs, runs_of(tensor));
  std::int64_t covered = 0;
  for (const Extent& run : runs) {
    if (run.first != covered) {
      return fail(Code::kCorrupt,
                  fmt::format("the parts of tensor \"{}\" {} at element {}", tensor.name,
                              run.first > covered ? "have a gap" : "overlap", covered));
    }
    covered += run.length;
  }
  if (covered == tensor.shape.elements()) return {};
  return fail(Code::kCorrupt, fmt::format("the parts of tensor \"{}\" end at element {} of {}",
                                          tensor.name, covered, tensor.shape.elements()));
}

bool is_one_part(const ManifestTensor& tensor) {
  return tensor.parts.size() == 1 && tensor.parts.front().count == 1 &&
         tensor.parts.front().extent == Extent{0, tensor.shape.elements()};
}

std::string part_name(const std::string& tensor, const ManifestPart& part) {
  const Extent run = part.extent;
  const std::string name = fmt::format("{}[{}:{}]", tensor, run.first, run.first + run.length);
  return part.count == 1 ? name : fmt::format("{}x{}", name, part.count);
}

std::string name_in_shard(const ManifestTensor& tensor, const ManifestPart& part) {
  return is_one_part(tensor) ? tensor.name : part_name(tensor.name, part);
}

Json to_json(const ManifestTensor& tensor) {
  Json json = Json::object();
  json.set("name", tensor.name).set("dtype", kDTypeText.text(tensor.dtype));
  json.set("shape", shape_json(tensor.shape));
  if (is_one_part(tensor)) {
    json.set("shard", tensor.parts.front().shard).set("checksum", tensor.parts.front().checksum);
    return json;
  }
  Json parts = Json::array();
  for (const ManifestPart& part : tensor.parts) {
    Json entry = Json::object();
    entry.set("first", part.extent.first).set("length", part.extent.length);
    if (part.count > 1) entry.set("runs", part.count).set("stride", part.stride);
    parts.push(std::move(entry.set("shard", part.shard).set("checksum", part.checksum)));
  }
  json.set("parts", std::move(parts));
  return json;
}

Json to_json(const ManifestShard& shard) {
  Json json = Json::object();
  json.set("file", shard.file).set("bytes", shard.bytes.count());
  json.set("header_checksum", shard.header_checksum);
  return json;
}

Result<ManifestTensor> manifest_tensor_from(const Json& json) {
  ManifestTensor tensor;
  QD_ASSIGN_OR_RETURN(tensor.name, string_field(json, "name"));
  QD_ASSIGN_OR_RETURN(const TensorForm form, form_fields(json));
  const auto dtype = tensor_dtype(form.dtype);
  if (!dtype) {
    return fail(Code::kInvalid, fmt::format("dtype \"{}\" is not supported in a checkpoint",
                                            kStoredTypeText.text(form.dtype)));
  }
  tensor.dtype = *dtype;
  tensor.shape = form.shape;
  QD_ASSIGN_OR_RETURN(tensor.parts, parts_from(json, tensor.shape.elements()));
  return tensor;
}

Result<ManifestShard> manifest_shard_from(const Json& json) {
  ManifestShard shard;
  QD_ASSIGN_OR_RETURN(shard.file, file_field(json, "file"));
  QD_ASSIGN_OR_RETURN(const std::int64_t bytes, count_field(json, "bytes"));
  shard.bytes = Bytes(bytes);
  QD_ASSIGN_OR_RETURN(shard.header_checksum, string_field(json, "header_checksum"));
  return shard;
}

std::string write_note(const ShardNote& note) {
  Json json = Json::object();
  if (note.error) {
    Json error = Json::object();
    error.set("code", to_text(note.error->code)).set("message", note.error->to_text());
    json.set("error", std::move(error));
    return write_json(json);
  }
  json.set("shard", to_json(note.shard));
  Json tensors = Json::array();
  for (const ManifestTensor& tensor : note.tensors) tensors.push(to_json(tensor));
  json.set("tensors", std::move(tensors));
  return write_json(json);
}

Result<ShardNote> parse_note(std::string_view text, const std::string& file) {
  QD_ASSIGN_OR_RETURN(const Json json, parse_object(text, file));
  auto note = note_from(json);
  if (!note) return fail(damaged(file, note.error().message));
  return note;
}

}  // namespace quadrille::internal
