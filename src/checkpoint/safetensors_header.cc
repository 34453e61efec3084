// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/fields.h"
#include "quadrille/base/json.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille {
namespace {

using internal::damaged;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;

/// What the file says of one tensor; its `begin` and size lie within the data.
Result<SafetensorsTensor> parse_tensor(const std::string& name, const Json& json, Bytes data) {
  if (!json.is_object()) return fail(Code::kCorrupt, "it is not described by an object");
  QD_ASSIGN_OR_RETURN(const internal::TensorForm form, internal::form_fields(json));
  QD_ASSIGN_OR_RETURN(const Json* offsets, internal::array_field(json, "data_offsets"));
  const std::vector<Json>& ends = offsets->elements();
  if (ends.size() != 2 || !ends[0].is_integer() || !ends[1].is_integer()) {
    return fail(Code::kCorrupt, "\"data_offsets\" are not two whole numbers");
  }
  const std::int64_t begin = ends[0].as_integer();
  const std::int64_t end = ends[1].as_integer();
  if (begin < 0 || end < begin || end > data.count()) {
    return fail(Code::kCorrupt, fmt::format("\"data_offsets\" [{}, {}] do not lie within the {} "
                                            "bytes of data",
                                            begin, end, data.count()));
  }
  if (end - begin != form.bytes.count()) {
    return fail(Code::kCorrupt, fmt::format("it takes {} bytes, but {} {} has {}", end - begin,
                                            kStoredTypeText.text(form.dtype), form.shape.to_text(),
                                            form.bytes.count()));
  }
  return SafetensorsTensor{name, form.dtype, form.shape, Bytes(begin)};
}

Result<void> parse_metadata(const Json& json, SafetensorsHeader& header) {
  if (!json.is_object()) return fail(Code::kCorrupt, "it is not an object");
  for (const auto& [key, value] : json.members()) {
    if (!value.is_string()) return fail(Code::kCorrupt, "\"" + key + "\" is not a string");
    header.metadata.emplace_back(key, value.as_string());
  }
  return {};
}

/// Tensors sorted by place must follow each other from 0 to the end.
Result<void> check_cover(const std::vector<SafetensorsTensor>& tensors, Bytes data) {
  Bytes next;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != next) {
      return fail(
          Code::kCorrupt,
          fmt::format("tensor \"{}\" begins at {}, {} {}", tensor.name, tensor.begin.count(),
                      tensor.begin < next ? "inside the one that ends at" : "leaving a gap after",
                      next.count()));
    }
    next += tensor.bytes();
  }
  if (next != data) {
    return fail(Code::kCorrupt, fmt::format("its tensors end at {} of {} bytes of data",
                                            next.count(), data.count()));
  }
  return {};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, Bytes data,
                                                   const std::string& file) {
  QD_ASSIGN_OR_RETURN(const Json object, internal::parse_object(json, file));
  SafetensorsHeader header;
  for (const auto& [name, value] : object.members()) {
    Result<void> done;
    if (name == kMetadata) {
      done = parse_metadata(value, header);
    } else if (auto tensor = parse_tensor(name, value, data)) {
      header.tensors.push_back(std::move(*tensor));
    } else {
      done = fail(std::move(tensor).error());
    }
    if (done) continue;
    Error error = damaged(file, fmt::format("\"{}\": {}", name, done.error().message));
    error.code = done.error().code;
    return fail(std::move(error));
  }
  // Empty tensors sort before the one that starts at the same place.
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.bytes()) < std::pair(b.begin, b.bytes());
  });
  if (auto covered = check_cover(header.tensors, data); !covered) {
    return fail(damaged(file, covered.error().message));
  }
  return header;
}

std::string write_safetensors_header(std::span<const SafetensorsTensor> tensors) {
  Json object = Json::object();
  // Other readers of the format ask for the framework whose layout the tensors have.
  object.set(kMetadata, Json::object().set("format", "pt"));
  Bytes next;
  for (const SafetensorsTensor& tensor : tensors) {
    const Bytes end = next + tensor.bytes();
    Json entry = Json::object();
    entry.set("dtype", kStoredTypeText.text(tensor.dtype));
    entry.set("shape", internal::shape_json(tensor.shape));
    entry.set("data_offsets", Json::array().push(next.count()).push(end.count()));
    object.set(tensor.name, std::move(entry));
    next = end;
  }
  std::string json = write_json(object);
  json.append((kAlignment - json.size() % kAlignment) % kAlignment, ' ');
  std::string text(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    text[i] = static_cast<char>(static_cast<std::uint64_t>(json.size()) >> (8 * i));
  }
  return text + json;
}

}  // namespace quadrille
