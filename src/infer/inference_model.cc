// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/inference_model.h"

#include <utility>

#include "quadrille/config/job_reader.h"
#include "quadrille/model/parameter_memory.h"

namespace quadrille::internal {

Result<InferenceModel> load_inference_model(const Checkpoint& checkpoint, Device& device) {
  InferenceModel loaded;
  loaded.state = checkpoint.manifest().state;
  QD_ASSIGN_OR_RETURN(loaded.job, parse_job({.file = checkpoint.path() + "/manifest.json",
                                             .text = write_json(loaded.state.job),
                                             .expand_globs = false}));
  QD_ASSIGN_OR_RETURN(loaded.tokenizer, make_tokenizer(loaded.state.tokenizer));
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
  return loaded;
}

}  // namespace quadrille::internal
