// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/layout_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace quadrille::internal {
namespace {

std::string key_of(const TracedTensor& tensor) {
  return fmt::format("{}/{}/{}", static_cast<int>(tensor.phase), tensor.layer, tensor.name);
}

std::size_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return static_cast<std::size_t>(elements);
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

void LayoutTrace::add(std::int64_t step, Piece piece) {
  const std::lock_guard lock(mutex_);
  Step& at = steps_[step];
  const auto [found, is_new] = at.index.emplace(key_of(piece.whole), at.slots.size());
  if (is_new) {
    const std::size_t elements = elements_of(piece.whole.shape);
    at.slots.push_back({std::move(piece.whole), std::vector<char>(elements)});
    at.slots.back().tensor.values.resize(elements);
  }
  Slot& slot = at.slots[found->second];
  bool differs = false;
  piece.place.for_each_run([&](std::int64_t in_whole, std::int64_t in_piece, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const auto target = static_cast<std::size_t>(in_whole + i);
      const float value = piece.values[static_cast<std::size_t>(in_piece + i)];
      differs = differs || (slot.given[target] && !same_bits(slot.tensor.values[target], value));
      slot.tensor.values[target] = value;
      slot.given[target] = 1;
    }
  });
  if (!differs || disagreement_) return;
  disagreement_ =
      fmt::format("step {}: ranks that hold the same of the {} of {} (layer {}) differ", step,
                  kTracePhaseText.text(slot.tensor.phase), slot.tensor.name, slot.tensor.layer);
}

void LayoutTrace::set_figures(std::int64_t step, double loss, double gradient_norm) {
  const std::lock_guard lock(mutex_);
  steps_[step].figures.loss = loss;
  steps_[step].figures.gradient_norm = gradient_norm;
}

std::vector<TracedStep> LayoutTrace::take() {
  const std::lock_guard lock(mutex_);
  std::vector<TracedStep> all;
  for (auto& [number, step] : steps_) {
    for (const Slot& slot : step.slots) {
      QD_CHECK_MSG(std::find(slot.given.begin(), slot.given.end(), 0) == slot.given.end(),
                   "nobody has a part of " + slot.tensor.name);
    }
    // Ranks come and go in any order: activations by layer, then gradients and weights in the
    // order of the model.
    std::stable_sort(step.slots.begin(), step.slots.end(), [](const Slot& a, const Slot& b) {
      if (a.tensor.phase != b.tensor.phase) return a.tensor.phase < b.tensor.phase;
      return a.tensor.layer < b.tensor.layer;
    });
    for (Slot& slot : step.slots) step.figures.tensors.push_back(std::move(slot.tensor));
    all.push_back(std::move(step.figures));
  }
  steps_.clear();
  return all;
}

Result<void> RankTrace::add_rows(std::int64_t step, std::int64_t layer, const std::string& name,
                                 const std::vector<std::int64_t>& slots) {
  const JobSpec& job = state_.plan->job;
  const std::int64_t sequence = job.training.sequence;
  const std::int64_t width = job.model.hidden;
  const Extent own =
      residual_rows(static_cast<std::int64_t>(slots.size()) * sequence, state_.tensor_share);
  QD_ASSIGN_OR_RETURN(std::vector<float> values,
                      read_all<float>(*state_.stream, state_.activations.view(layer, name)));
  const std::vector<std::int64_t> shape{job.training.global_batch * sequence, width};
  for (std::int64_t row = own.first; row < own.first + own.length; ++row) {
    const std::int64_t place =
        slots[static_cast<std::size_t>(row / sequence)] * sequence + row % sequence;
    const auto from = values.begin() + (row - own.first) * width;
    trace_.add(step,
               {.whole = {.phase = TracePhase::kActivation,
                          .layer = layer,
                          .name = name,
                          .shape = shape,
                          .tensor = state_.tensor_share.shares_rows() ? AxisPlacement::sharded(0)
                                                                      : AxisPlacement::replicated(),
                          .values = {}},
                .place = TensorPiece::whole(shape).part(place * width, width),
                .values = std::vector<float>(from, from + width)});
  }
  return {};
}

Result<void> RankTrace::forward(std::int64_t step, std::int64_t layer,
                                const std::vector<std::int64_t>& slots) {
  const std::int64_t last = state_.model->layers() - 1;
  if (layer == last) return {};
  if (layer > 0) QD_RETURN_IF_ERROR(add_rows(step, layer, "middle", slots));
  return add_rows(step, layer, "output", slots);
}

Result<void> RankTrace::add_parameter(std::int64_t step, TracePhase phase, std::size_t index,
                                      const TensorView& view, const TensorPiece& place) {
  const TrainedTensor& tensor = state_.tensors[index];
  const ParameterShape& shape = state_.model->parameters()[index].shape;
  QD_ASSIGN_OR_RETURN(std::vector<float> values, read_all<float>(*state_.stream, view));
  trace_.add(step, {.whole = {.phase = phase,
                              .layer = tensor.layer,
                              .name = tensor.name,
                              .shape = shape.shape,
                              .tensor = shape.placement.on(Axis::kTensor),
                              .values = {}},
                    .place = place,
                    .values = std::move(values)});
  return {};
}

Result<void> RankTrace::gradients(std::int64_t step) {
  if (state_.sharding() == 0) {
    for (std::size_t i = 0; i < state_.tensors.size(); ++i) {
      QD_RETURN_IF_ERROR(add_parameter(step, TracePhase::kGradient, i, state_.tensors[i].gradient,
                                       state_.tensors[i].piece));
    }
    return {};
  }
  for (const FlatPiece& piece : state_.pieces) {
    const std::size_t index = tensor_of(state_, piece);
    const TensorPiece place =
        state_.tensors[index].piece.part(piece.of_tensor.first, piece.of_tensor.length);
    QD_RETURN_IF_ERROR(
        add_parameter(step, TracePhase::kGradient, index, state_.buckets->reduced(piece), place));
  }
  return {};
}

Result<void> RankTrace::weights(std::int64_t step) {
  if (state_.sharding() >= 3) {
    for (const FlatPiece& piece : state_.pieces) {
      const std::size_t index = tensor_of(state_, piece);
      const TensorPiece place =
          state_.tensors[index].piece.part(piece.of_tensor.first, piece.of_tensor.length);
      QD_RETURN_IF_ERROR(
          add_parameter(step, TracePhase::kWeight, index, own_piece(state_, piece), place));
    }
    return {};
  }
  for (std::size_t i = 0; i < state_.tensors.size(); ++i) {
    QD_RETURN_IF_ERROR(add_parameter(step, TracePhase::kWeight, i, state_.tensors[i].value,
                                     state_.tensors[i].piece));
  }
  return {};
}

}  // namespace quadrille::internal
