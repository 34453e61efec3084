// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Naming the first tensor that is not finite. Only runs when a step has failed.

#include <fmt/format.h>

#include "train/executor.h"

namespace quadrille::internal {

Result<std::string> Executor::first_bad_tensor() {
  QD_ASSIGN_OR_RETURN(const std::optional<std::string> bad, first_bad_value(state_));
  if (bad) return *bad;
  return first_bad_activation();
}

Result<std::string> Executor::bad_activation_of(std::int64_t layer, std::int64_t micro_batch) {
  for (const auto& [name, view, life] : state_.activations.of_layer(layer)) {
    // Gradients and the backward's scratch hold no value of this forward.
    if (life == ActivationLife::kBackward || life == ActivationLife::kGradient) continue;
    QD_ASSIGN_OR_RETURN(const std::int64_t bad, count_nonfinite(state_, view));
    if (bad == 0) continue;
    return fmt::format("activation {} of layer {} in micro-batch {} of rank {} ({} of {} elements)",
                       name, layer, micro_batch, state_.world->rank().value, bad, view.elements());
  }
  return std::string();
}

Result<std::string> Executor::first_bad_activation() {
  std::string found;
  for (std::int64_t micro_batch = 0; micro_batch < state_.plan->micro_batches; ++micro_batch) {
    load_batch(micro_batch);
    context_.training = false;
    for (std::int64_t layer = 0; layer < state_.model->layers(); ++layer) {
      QD_RETURN_IF_ERROR(forward(layer));
      if (found.empty()) {
        QD_ASSIGN_OR_RETURN(found, bad_activation_of(layer, micro_batch));
      }
      // Ranks that share the layer stop together: the next forward is a collective of theirs.
      QD_ASSIGN_OR_RETURN(found, first_found(*state_.tensor_group, found));
      // Where a layer is gathered, every rank must run them all.
      if (!found.empty() && state_.sharding() < 3) return found;
    }
  }
  if (!found.empty()) return found;
  return fmt::format("none on rank {}: every parameter and activation is finite in evaluation",
                     state_.world->rank().value);
}

}  // namespace quadrille::internal
