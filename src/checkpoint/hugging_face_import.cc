// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A Hugging Face folder as a checkpoint: one shard, parameters only.

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/folders.h"
#include "checkpoint/hugging_face_layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tokenizer_files.h"
#include "quadrille/base/check.h"
#include "quadrille/base/file.h"
#include "quadrille/base/hash.h"
#include "quadrille/base/units.h"
#include "quadrille/checkpoint/hugging_face.h"
#include "quadrille/config/job_reader.h"

namespace quadrille {
namespace {

constexpr std::string_view kShard = "shard-00000-of-00001.safetensors";

/// The job that a checkpoint must carry: it has the model, and for the rest what says that nothing
/// was trained yet.
Result<JobSpec> job_of(const std::string& folder) {
  Json job = Json::object();
  job.set("name", "imported");
  job.set("model", Json::object().set("weights", folder));
  job.set("data",
          Json::object().set("train", folder).set("tokenizer", internal::tokenizer_in(folder)));
  job.set("training", Json::object().set("steps", 1));
  return parse_job({.file = folder, .text = write_json(job)});
}

TrainingState state_of(const JobSpec& job) {
  TrainingState state;
  state.job = to_json(job);
  state.model = *state.job.find("model");
  state.tokenizer = job.data.tokenizer;
  return state;
}

Result<ManifestShard> write_tensors(const HuggingFaceFolder& source, const ModelSpec& model,
                                    const std::string& partial,
                                    std::vector<ManifestTensor>& tensors) {
  const std::vector<ParameterShape> parameters = parameter_shapes(model);
  std::vector<SafetensorsTensor> header;
  for (const ParameterShape& parameter : parameters) {
    header.push_back({parameter.name, StoredType::kF32, internal::shape_of(parameter), Bytes(0)});
  }
  QD_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                      SafetensorsWriter::create(partial + "/" + std::string(kShard), header));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    QD_ASSIGN_OR_RETURN(const std::vector<float> values, source.read(parameters[i]));
    const auto bytes = std::as_bytes(std::span(values));
    QD_RETURN_IF_ERROR(writer.append(bytes));
    const ManifestPart whole{
        {0, header[i].shape.elements()}, std::string(kShard), hash_text(hash64(bytes))};
    tensors.push_back({parameters[i].name, DType::kF32, header[i].shape, {whole}});
  }
  QD_RETURN_IF_ERROR(writer.close());
  return ManifestShard{std::string(kShard), writer.size(), writer.header_checksum()};
}

Result<void> write_checkpoint(const HuggingFaceFolder& source, const JobSpec& job,
                              const std::string& partial) {
  Manifest manifest;
  manifest.state = state_of(job);
  manifest.created = utc_now_text();
  QD_ASSIGN_OR_RETURN(ManifestShard shard,
                      write_tensors(source, job.model, partial, manifest.tensors));
  manifest.shards.push_back(std::move(shard));
  QD_RETURN_IF_ERROR(write_file_atomically(partial + "/" + std::string(internal::kManifestName),
                                           write_manifest(manifest)));
  return sync_folder(partial);
}

/// Beside the checkpoint, so that it does not need the folder any more.
Result<void> keep_tokenizer(const JobSpec& job, const std::string& folder,
                            const std::string& directory) {
  if (job.data.tokenizer == internal::kByteTokenizer) return {};
  const std::string target = directory + "/" + std::string(internal::kTokenizerFolder);
  QD_RETURN_IF_ERROR(make_folders(target));
  QD_ASSIGN_OR_RETURN(const auto copied, internal::copy_tokenizer_files({folder}, target));
  QD_CHECK(!copied.empty());
  return {};
}

}  // namespace

Result<std::string> import_hugging_face(const std::string& folder, const std::string& directory) {
  const std::string source_path = std::filesystem::absolute(folder).lexically_normal().string();
  if (!HuggingFaceFolder::is_one(source_path)) {
    return fail(Code::kNotFound, "\"" + folder + "\" has no config.json");
  }
  QD_ASSIGN_OR_RETURN(const JobSpec job, job_of(source_path));
  QD_ASSIGN_OR_RETURN(const HuggingFaceFolder source,
                      HuggingFaceFolder::open(source_path, job.model));
  const std::string target = directory + "/" + internal::step_folder_name(0);
  if (path_exists(target)) return fail(Code::kInvalid, "\"" + target + "\" exists already");
  const std::string partial = directory + "/" + internal::partial_folder_name(0, 0);
  QD_RETURN_IF_ERROR(remove_tree(partial));
  QD_RETURN_IF_ERROR(make_folders(partial));
  Result<void> done = write_checkpoint(source, job, partial);
  if (done) done = keep_tokenizer(job, source_path, directory);
  if (done) done = internal::commit_folder(directory, partial, 0);
  if (done) return target;
  (void)remove_tree(partial);
  return fail(done.error());
}

}  // namespace quadrille
