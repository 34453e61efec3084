// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "infer/evaluation.h"
#include "infer/generation.h"
#include "infer/inference_model.h"
#include "quadrille/infer/generator.h"

namespace quadrille {

struct LoadedModel::State {
  internal::InferenceModel model;
};

LoadedModel::LoadedModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedModel::~LoadedModel() = default;

Result<std::unique_ptr<LoadedModel>> LoadedModel::open(const Checkpoint& checkpoint, Device& device,
                                                       Precision precision) {
  auto state = std::make_unique<State>();
  QD_ASSIGN_OR_RETURN(state->model, internal::load_inference_model(checkpoint, device, precision));
  return std::unique_ptr<LoadedModel>(new LoadedModel(std::move(state)));
}

const Tokenizer& LoadedModel::tokenizer() const { return *state_->model.tokenizer; }
const TrainingState& LoadedModel::state() const { return state_->model.state; }

Result<GenerationReport> LoadedModel::generate(
    std::span<const std::string> prompts, const SamplingOptions& options,
    const std::function<bool(std::int64_t, std::string_view)>& emit) {
  return internal::generate_samples(state_->model, prompts, options, emit);
}

Result<GenerationReport> LoadedModel::generate(
    std::string_view prompt, const SamplingOptions& options,
    const std::function<bool(std::int64_t, std::string_view)>& emit) {
  const std::string only(prompt);
  return internal::generate_samples(state_->model, {&only, 1}, options, emit);
}

Result<LoadedModel::Evaluation> LoadedModel::evaluate(const std::vector<std::string>& files) {
  return internal::evaluate_model(state_->model, files);
}

}  // namespace quadrille
