// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/fields.h"
#include "checkpoint/hugging_face_layout.h"
#include "checkpoint/plain_file.h"
#include "quadrille/base/check.h"
#include "quadrille/base/file.h"
#include "quadrille/base/text.h"
#include "quadrille/checkpoint/hugging_face.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille {
namespace {

using internal::HuggingFacePlace;

constexpr std::string_view kTiedHead = "lm_head.weight";

/// A tensor and the file that it is in.
struct StoredTensor {
  const SafetensorsFile* file = nullptr;
  const SafetensorsTensor* tensor = nullptr;
};
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

Result<std::vector<std::byte>> read_bytes(const StoredTensor& stored) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(stored.tensor->bytes().count()));
  QD_RETURN_IF_ERROR(stored.file->read(*stored.tensor, Bytes(0), bytes));
  return bytes;
}

/// The names of a folder's weights files, and what its index says is in them.
struct WeightsFiles {
  std::vector<std::string> files;
  std::vector<std::pair<std::string, std::string>> index;
};

Result<WeightsFiles> weights_files(const std::string& path) {
  WeightsFiles found;
  if (path_exists(path + "/" + std::string(internal::kHuggingFaceWeights))) {
    found.files.emplace_back(internal::kHuggingFaceWeights);
    return found;
  }
  const std::string index = path + "/" + std::string(internal::kHuggingFaceIndex);
  if (!path_exists(index)) {
    const bool old = path_exists(path + "/pytorch_model.bin") ||
                     path_exists(path + "/pytorch_model.bin.index.json");
    return fail(
        Code::kNotFound,
        fmt::format("\"{}\" has neither {} nor {}{}", path, internal::kHuggingFaceWeights,
                    internal::kHuggingFaceIndex,
                    old ? "; its pytorch_model.bin must be saved as safetensors first" : ""));
  }
  QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(index));
  QD_ASSIGN_OR_RETURN(found.index, parse_safetensors_index(text, index));
  for (const auto& [name, file] : found.index) {
    if (std::find(found.files.begin(), found.files.end(), file) == found.files.end()) {
      found.files.push_back(file);
    }
  }
  return found;
}

/// The two say the same of which tensor is where.
Result<void> check_index(const std::string& path, const WeightsFiles& found,
                         const std::vector<SafetensorsFile>& files, std::size_t tensors) {
  if (found.index.empty()) return {};
  const std::string index = path + "/" + std::string(internal::kHuggingFaceIndex);
  for (const auto& [name, file] : found.index) {
    const auto at = std::find(found.files.begin(), found.files.end(), file);
    if (files[static_cast<std::size_t>(at - found.files.begin())].find(name) == nullptr) {
      return fail(internal::damaged(
          index, fmt::format("tensor \"{}\" is not in the \"{}\" that it names", name, file)));
    }
  }
  if (tensors == found.index.size()) return {};
  return fail(internal::damaged(
      index, fmt::format("it lists {} tensors, its files have {}", found.index.size(), tensors)));
}

/// What is wrong with a folder's tensors, all of it.
struct Mismatch {
  std::vector<std::string> missing;
  std::vector<std::string> unknown;
  std::vector<std::string> different;

  [[nodiscard]] Result<void> result(const std::string& path) const {
    std::vector<std::string> parts;
    if (!missing.empty()) parts.push_back("it lacks " + join(missing, ", "));
    if (!unknown.empty()) parts.push_back("it also has " + join(unknown, ", "));
    parts.insert(parts.end(), different.begin(), different.end());
    if (parts.empty()) return {};
    return fail(Code::kInvalid, "\"" + path + "\" is of another model: " + join(parts, "; "));
  }
};

}  // namespace

struct HuggingFaceFolder::State {
  std::string path;
  ModelSpec model;
  std::vector<SafetensorsFile> files;
  StoredTensors tensors;
  std::map<std::string, StoredTensor, std::less<>> by_parameter;

  Result<void> open_files();
  Result<void> match();
  void take(const ParameterShape& parameter, Mismatch& mismatch);
  [[nodiscard]] Result<void> check_tied_head() const;
};

Result<void> HuggingFaceFolder::State::open_files() {
  QD_ASSIGN_OR_RETURN(const WeightsFiles found, weights_files(path));
  files.reserve(found.files.size());  // keeps the addresses
  for (const std::string& name : found.files) {
    QD_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path + "/" + name));
    files.push_back(std::move(file));
    for (const SafetensorsTensor& tensor : files.back().header().tensors) {
      if (!tensors.emplace(tensor.name, StoredTensor{&files.back(), &tensor}).second) {
        return fail(internal::damaged(path, "tensor \"" + tensor.name + "\" is in two files"));
      }
    }
  }
  return check_index(path, found, files, tensors.size());
}

void HuggingFaceFolder::State::take(const ParameterShape& parameter, Mismatch& mismatch) {
  const HuggingFacePlace place = internal::hugging_face_place(model, parameter);
  auto found = tensors.find(place.name);
  if (found == tensors.end()) found = tensors.find(place.bare_name);
  if (found == tensors.end()) {
    mismatch.missing.push_back(place.name);
    return;
  }
  const SafetensorsTensor& tensor = *found->second.tensor;
  if (tensor.shape != place.shape || !internal::is_float_type(tensor.dtype)) {
    mismatch.different.push_back(fmt::format("{} is {} {} instead of {} in F32, F16 or BF16",
                                             tensor.name, kStoredTypeText.text(tensor.dtype),
                                             tensor.shape.to_text(), place.shape.to_text()));
  }
  by_parameter.emplace(parameter.name, found->second);
}

Result<void> HuggingFaceFolder::State::match() {
  Mismatch mismatch;
  for (const ParameterShape& parameter : parameter_shapes(model)) take(parameter, mismatch);
  std::set<const SafetensorsTensor*> used;
  for (const auto& [parameter, stored] : by_parameter) used.insert(stored.tensor);
  for (const auto& [name, stored] : tensors) {
    const bool taken = used.contains(stored.tensor);
    const bool known =
        internal::is_hugging_face_buffer(name) || (model.tie_embeddings && name == kTiedHead);
    if (!taken && !known) mismatch.unknown.push_back(name);
  }
  return mismatch.result(path);
}

/// A head that is tied may stand in the file once more, but then as the same matrix.
Result<void> HuggingFaceFolder::State::check_tied_head() const {
  const auto head = tensors.find(kTiedHead);
  if (!model.tie_embeddings || head == tensors.end()) return {};
  const StoredTensor& embedding = by_parameter.at(parameter_shapes(model).front().name);
  QD_ASSIGN_OR_RETURN(const std::vector<std::byte> a, read_bytes(head->second));
  QD_ASSIGN_OR_RETURN(const std::vector<std::byte> b, read_bytes(embedding));
  if (a == b) return {};
  return fail(Code::kInvalid, fmt::format("\"{}\" ties the head to the embedding, but its {} is "
                                          "another matrix than its {}",
                                          path, kTiedHead, embedding.tensor->name));
}

bool HuggingFaceFolder::is_one(const std::string& path) {
  return path_exists(path + "/" + std::string(internal::kHuggingFaceConfig));
}

Result<HuggingFaceFolder> HuggingFaceFolder::open(const std::string& path, const ModelSpec& model) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->model = model;
  QD_RETURN_IF_ERROR(state->open_files());
  QD_RETURN_IF_ERROR(state->match());
  QD_RETURN_IF_ERROR(state->check_tied_head());
  return HuggingFaceFolder(std::move(state));
}

HuggingFaceFolder::HuggingFaceFolder(std::unique_ptr<State> state) : state_(std::move(state)) {}
HuggingFaceFolder::HuggingFaceFolder(HuggingFaceFolder&&) noexcept = default;
HuggingFaceFolder& HuggingFaceFolder::operator=(HuggingFaceFolder&&) noexcept = default;
HuggingFaceFolder::~HuggingFaceFolder() = default;

Result<std::vector<float>> HuggingFaceFolder::read(const ParameterShape& parameter) const {
  const auto found = state_->by_parameter.find(parameter.name);
  QD_CHECK_MSG(found != state_->by_parameter.end(), parameter.name);
  QD_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_bytes(found->second));
  const SafetensorsTensor& tensor = *found->second.tensor;
  std::vector<float> values = internal::to_floats(tensor.dtype, bytes);
  const HuggingFacePlace place = internal::hugging_face_place(state_->model, parameter);
  return place.transposed ? internal::transposed(values, place.shape) : values;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(
    std::string_view text, const std::string& file) {
  QD_ASSIGN_OR_RETURN(const Json json, internal::parse_object(text, file));
  const auto map = internal::object_field(json, "weight_map");
  if (!map) return fail(internal::damaged(file, map.error().message));
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, value] : (*map)->members()) {
    const std::string shard = value.is_string() ? value.as_string() : "";
    const bool hidden = shard.empty() || shard.front() == '.';
    if (hidden || shard.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      return fail(internal::damaged(
          file, fmt::format("the file of tensor \"{}\" is {}, which is no file's name", name,
                            write_json(value))));
    }
    entries.emplace_back(name, shard);
  }
  if (entries.empty()) return fail(internal::damaged(file, "its weight_map is empty"));
  return entries;
}

}  // namespace quadrille
