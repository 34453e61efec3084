// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "checkpoint/fields.h"
#include "quadrille/base/hash.h"

namespace quadrille {
namespace {

using internal::array_field;
using internal::count_field;
using internal::damaged;
using internal::object_field;
using internal::string_field;

// Version 1 knows tensors that lie whole in one shard, version 2 tensors in parts as well.
constexpr std::int64_t kVersion = 2;
constexpr std::int64_t kVersionOfWholes = 1;
constexpr std::string_view kFormat = "quadrille-checkpoint";
/// A manifest begins with its checksum at a fixed place; it covers every byte after it.
constexpr std::string_view kOpening = "{\n \"checksum\": \"";
constexpr std::size_t kChecksumDigits = 16;

Json state_json(const TrainingState& state) {
  Json json = Json::object();
  json.set("step", state.step).set("consumed_tokens", state.consumed_tokens);
  json.set("job_hash", state.job_hash).set("plan_hash", state.plan_hash);
  json.set("tokenizer", state.tokenizer).set("tokenizer_hash", state.tokenizer_hash);
  json.set("model", state.model).set("job", state.job);
  const ValidationHistory& validation = state.validation;
  if (validation.best_loss) {
    json.set("validation", Json::object()
                               .set("best_loss", *validation.best_loss)
                               .set("best_step", validation.best_step)
                               .set("evaluations_since_best", validation.evaluations_since_best));
  }
  return json;
}

/// Absent in a checkpoint of a run that never evaluated.
Result<ValidationHistory> validation_from(const Json& state) {
  ValidationHistory history;
  if (state.find("validation") == nullptr) return history;
  QD_ASSIGN_OR_RETURN(const Json* json, object_field(state, "validation"));
  const Json* loss = json->find("best_loss");
  if (loss == nullptr || !loss->is_number()) {
    return fail(Code::kCorrupt, "\"validation.best_loss\" is not a number");
  }
  history.best_loss = loss->as_number();
  QD_ASSIGN_OR_RETURN(history.best_step, count_field(*json, "best_step"));
  QD_ASSIGN_OR_RETURN(history.evaluations_since_best, count_field(*json, "evaluations_since_best"));
  return history;
}

Result<TrainingState> state_from(const Json& json) {
  TrainingState state;
  QD_ASSIGN_OR_RETURN(state.step, count_field(json, "step"));
  QD_ASSIGN_OR_RETURN(state.consumed_tokens, count_field(json, "consumed_tokens"));
  QD_ASSIGN_OR_RETURN(state.job_hash, string_field(json, "job_hash"));
  QD_ASSIGN_OR_RETURN(state.plan_hash, string_field(json, "plan_hash"));
  QD_ASSIGN_OR_RETURN(state.tokenizer, string_field(json, "tokenizer"));
  state.tokenizer_hash = json.string_or("tokenizer_hash", "");
  for (const auto& [key, target] : {std::pair{"model", &state.model}, {"job", &state.job}}) {
    const Json* value = json.find(key);
    if (value == nullptr) return fail(Code::kCorrupt, fmt::format("\"{}\" is missing", key));
    *target = *value;
  }
  QD_ASSIGN_OR_RETURN(state.validation, validation_from(json));
  return state;
}

/// The text after the checksum, which must be right.
Result<std::string_view> checked_rest(std::string_view text) {
  if (text.size() < kOpening.size() + kChecksumDigits) {
    return fail(Code::kCorrupt, fmt::format("it has only {} bytes", text.size()));
  }
  if (text.substr(0, kOpening.size()) != kOpening) {
    return fail(Code::kCorrupt, "it does not begin with its checksum");
  }
  const std::string_view rest = text.substr(kOpening.size() + kChecksumDigits);
  if (hash_text(hash64(rest)) != text.substr(kOpening.size(), kChecksumDigits)) {
    return fail(Code::kCorrupt, "its checksum is wrong");
  }
  return rest;
}

Result<void> parse_lists(const Json& json, Manifest& manifest) {
  std::unordered_set<std::string_view> files;
  QD_ASSIGN_OR_RETURN(const Json* shards, array_field(json, "shards"));
  for (const Json& entry : shards->elements()) {
    QD_ASSIGN_OR_RETURN(ManifestShard shard, internal::manifest_shard_from(entry));
    manifest.shards.push_back(std::move(shard));
  }
  for (const ManifestShard& shard : manifest.shards) {
    if (!files.insert(shard.file).second) {
      return fail(Code::kCorrupt, "it lists \"" + shard.file + "\" twice");
    }
  }
  std::unordered_set<std::string_view> names;
  QD_ASSIGN_OR_RETURN(const Json* tensors, array_field(json, "tensors"));
  manifest.tensors.reserve(tensors->elements().size());  // keeps the names' addresses
  for (const Json& entry : tensors->elements()) {
    QD_ASSIGN_OR_RETURN(ManifestTensor tensor, internal::manifest_tensor_from(entry));
    manifest.tensors.push_back(std::move(tensor));
    const ManifestTensor& added = manifest.tensors.back();
    if (!names.insert(added.name).second) {
      return fail(Code::kCorrupt, "it lists tensor \"" + added.name + "\" twice");
    }
    QD_RETURN_IF_ERROR(internal::check_cover(added));
    for (const ManifestPart& part : added.parts) {
      if (files.contains(part.shard)) continue;
      return fail(Code::kCorrupt, fmt::format("tensor \"{}\" is in \"{}\", which it does not list",
                                              added.name, part.shard));
    }
  }
  return {};
}

Result<Manifest> manifest_from(const Json& json) {
  QD_ASSIGN_OR_RETURN(const std::string format, string_field(json, "format"));
  if (format != kFormat) return fail(Code::kCorrupt, "its format is \"" + format + "\"");
  QD_ASSIGN_OR_RETURN(const std::int64_t version, count_field(json, "version"));
  if (version < kVersionOfWholes || version > kVersion) {
    return fail(Code::kInvalid, fmt::format("it has version {}, this program reads versions {} to "
                                            "{}",
                                            version, kVersionOfWholes, kVersion));
  }
  Manifest manifest;
  QD_ASSIGN_OR_RETURN(manifest.created, string_field(json, "created"));
  QD_ASSIGN_OR_RETURN(const Json* state, object_field(json, "state"));
  QD_ASSIGN_OR_RETURN(manifest.state, state_from(*state));
  QD_RETURN_IF_ERROR(parse_lists(json, manifest));
  return manifest;
}

}  // namespace

std::string write_manifest(const Manifest& manifest) {
  const bool wholes = std::all_of(manifest.tensors.begin(), manifest.tensors.end(),
                                  [](const auto& tensor) { return internal::is_one_part(tensor); });
  Json json = Json::object();
  json.set("format", kFormat).set("version", wholes ? kVersionOfWholes : kVersion);
  json.set("created", manifest.created);
  json.set("state", state_json(manifest.state));
  Json shards = Json::array();
  for (const ManifestShard& shard : manifest.shards) shards.push(internal::to_json(shard));
  Json tensors = Json::array();
  for (const ManifestTensor& tensor : manifest.tensors) tensors.push(internal::to_json(tensor));
  json.set("shards", std::move(shards)).set("tensors", std::move(tensors));
  // The object's own text from after its brace.
  const std::string rest = "\"," + write_json(json, 1).substr(1) + "\n";
  return std::string(kOpening) + hash_text(hash64(rest)) + rest;
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& file) {
  if (auto rest = checked_rest(text); !rest) return fail(damaged(file, rest.error().message));
  QD_ASSIGN_OR_RETURN(const Json json, internal::parse_object(text, file));
  auto manifest = manifest_from(json);
  if (manifest) return manifest;
  Error error = damaged(file, manifest.error().message);
  error.code = manifest.error().code;
  return fail(std::move(error));
}

}  // namespace quadrille
