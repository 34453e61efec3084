// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/start_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "quadrille/checkpoint/hugging_face.h"

namespace quadrille::internal {
namespace {

Result<void> load_folder(RankState& state, const std::string& path) {
  QD_ASSIGN_OR_RETURN(const HuggingFaceFolder folder,
                      HuggingFaceFolder::open(path, state.model->spec()));
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const Parameter& parameter = state.model->parameters()[i];
    QD_ASSIGN_OR_RETURN(const std::vector<float> whole, folder.read(parameter.shape));
    std::vector<float> own(static_cast<std::size_t>(parameter.piece.elements()));
    parameter.piece.for_each_run(
        [&](std::int64_t in_whole, std::int64_t in_piece, std::int64_t length) {
          std::copy_n(whole.begin() + in_whole, length, own.begin() + in_piece);
        });
    write_value(state, i, own);
  }
  return state.stream->synchronize();
}

Result<void> load_checkpoint(RankState& state, const std::string& path) {
  QD_ASSIGN_OR_RETURN(const Checkpoint checkpoint, resolve_checkpoint(path));
  const std::string& theirs = checkpoint.manifest().state.tokenizer;
  const std::string& ours = state.plan->job.data.tokenizer;
  if (theirs != ours) {
    return fail(Code::kInvalid,
                fmt::format("{} was trained with tokenizer \"{}\", the job has \"{}\"",
                            checkpoint.path(), theirs, ours));
  }
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    QD_RETURN_IF_ERROR(checkpoint.load(value_to_load(state, i), *state.stream));
  }
  return {};
}

}  // namespace

Result<void> start_anew(RankState& state) {
  const std::string& path = state.plan->job.model.weights;
  if (path.empty()) {
    state.residency.fill(
        [&state] { state.model->initialise(*state.stream, state.plan->job.training.seed); });
    return {};
  }
  const Result<void> loaded =
      HuggingFaceFolder::is_one(path) ? load_folder(state, path) : load_checkpoint(state, path);
  if (!loaded) return fail(with_context(loaded.error(), "model.weights"));
  if (state.is_first()) {
    state.options.log->info("starting from the weights of " + path);
    state.options.events->record("weights_loaded", 0, Json::object().set("path", path));
  }
  return {};
}

}  // namespace quadrille::internal
