// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/inference_model.h"

#include <filesystem>
#include <utility>

#include "quadrille/config/job_reader.h"
#include "quadrille/data/token_file.h"
#include "quadrille/model/parameter_memory.h"

namespace quadrille::internal {

namespace {

/// What the job calls the tokenizer that the model was trained with: the copy beside the
/// checkpoints, or where it was. Errors: kNotFound where neither is it any more.
Result<std::string> find_tokenizer(const Checkpoint& checkpoint, const TrainingState& state) {
  if (state.tokenizer == "bytes") return state.tokenizer;
  const auto parent = std::filesystem::path(checkpoint.path()).lexically_normal().parent_path();
  std::string tried;
  for (const std::string& path : {(parent / "tokenizer").string(), state.tokenizer}) {
    const auto tokenizer = make_tokenizer(path);
    std::string problem = "it is another tokenizer";
    if (!tokenizer) {
      problem = tokenizer.error().to_text();
    } else if (state.tokenizer_hash.empty() ||
               record_of(**tokenizer, path).hash == state.tokenizer_hash) {
      return path;
    }
    tried += "\n\"" + path + "\": " + problem;
  }
  return fail(Code::kNotFound,
              "the tokenizer of \"" + checkpoint.path() + "\" is not to be found:" + tried);
}

}  // namespace

Result<InferenceModel> load_inference_model(const Checkpoint& checkpoint, Device& device,
                                            Precision precision) {
  InferenceModel loaded;
  loaded.state = checkpoint.manifest().state;
  QD_ASSIGN_OR_RETURN(loaded.job, parse_job({.file = checkpoint.path() + "/manifest.json",
                                             .text = write_json(loaded.state.job),
                                             .expand_globs = false}));
  QD_ASSIGN_OR_RETURN(loaded.job.data.tokenizer, find_tokenizer(checkpoint, loaded.state));
  QD_ASSIGN_OR_RETURN(loaded.tokenizer, make_tokenizer(loaded.job.data.tokenizer));
  loaded.stream = device.make_stream();
  QD_ASSIGN_OR_RETURN(loaded.pool, Pool::create({.device = &device, .name = "inference"}));
  QD_ASSIGN_OR_RETURN(loaded.model, Transformer::create(loaded.job.model));
  QD_ASSIGN_OR_RETURN(loaded.values, bind_values(*loaded.model, *loaded.pool));
  Result<void> read;
  for (const Parameter& parameter : loaded.model->parameters()) {
    read = checkpoint.load(parameter.shape.name, *loaded.stream, parameter.value);
    if (!read) break;
  }
  // Before the memory may go, also on an error: uploads may be under way.
  QD_RETURN_IF_ERROR(loaded.stream->synchronize());
  QD_RETURN_IF_ERROR(read);
  QD_ASSIGN_OR_RETURN(loaded.weights, DecoderWeights::create(*loaded.model, precision,
                                                             *loaded.stream, *loaded.pool));
  QD_RETURN_IF_ERROR(loaded.stream->synchronize());
  return loaded;
}

}  // namespace quadrille::internal
