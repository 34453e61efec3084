// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A model's shape as Hugging Face's config.json says it, and as a job's `model` object says it: one
// page that turns each into the other. What a config asks for and this program's models cannot do
// is an error; what concerns other things (tokens, generation, versions) is left alone.

#include <string>

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"

namespace quadrille {

/// The `model` object of a job, without dropout, which is a choice of training and no shape. The
/// keys that decide the shape are all there, whatever the config leaves to its defaults.
/// Errors: kInvalid with every diagnostic.
[[nodiscard]] Result<Json> model_from_hugging_face(const Json& config, const std::string& file);

/// The config.json of a model in fp32. Biases that a GPT-2 lacks here are no field of it: who
/// writes the weights must write zeros.
[[nodiscard]] Json hugging_face_config(const ModelSpec& model);

/// The same object for weights to start from: `path` is a Hugging Face folder, a checkpoint or a
/// run directory. Errors: kNotFound, kInvalid, kCorrupt; nothing but the shape is checked.
struct WeightsModel {
  Json model;
  std::string file;  ///< Where it stands.
};
[[nodiscard]] Result<WeightsModel> read_weights_model(const std::string& path);

}  // namespace quadrille
