// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The mean loss of a loaded model over data. Nothing goes backward, so all layers share the memory
// of one.

#include <string>
#include <vector>

#include "infer/inference_model.h"
#include "quadrille/infer/generator.h"

namespace quadrille::internal {

[[nodiscard]] Result<LoadedModel::Evaluation> evaluate_model(InferenceModel& model,
                                                             const std::vector<std::string>& files);

}  // namespace quadrille::internal
