// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/rank_memory.h"

#include <algorithm>
#include <cmath>

#include "plan/stage_cut.h"

namespace quadrille {
namespace {

/// Bytes that one layer keeps for backward of one micro-batch.
struct LayerBytes {
  double kept = 0;   ///< What stays until its backward.
  double whole = 0;  ///< What stands while its backward works.
};

LayerBytes layer_bytes(const TrainingRun& run, const MemoryConstants& constants) {
  const TransformerShape& model = run.model;
  const RunLayout& layout = run.layout;
  const auto t = static_cast<double>(layout.tensor);
  const auto h = static_cast<double>(model.hidden);
  const auto s = static_cast<double>(model.sequence);
  const auto b = static_cast<double>(layout.micro_batch);
  const double tokens = b * s / static_cast<double>(layout.context);
  const double keys = std::max(model.kv_columns() / t, model.head_width());
  const auto ffn = static_cast<double>(model.ffn) / t;
  const double ffn_in = (model.gated ? 2 : 1) * ffn;

  // Inputs of both norms and both column-parallel products; masks of two dropouts in eager stacks.
  const double masks = run.software.flash ? 0 : 2;
  const double replicated = (8 + masks) * h / (layout.sequence ? t : 1);
  const double split = 2 * (h / t + 2 * keys) + 2 * h / t + 2 * ffn_in + 2 * ffn;
  double scores = 0;
  if (!run.software.flash) {
    const auto heads = static_cast<double>(model.heads);
    scores =
        constants.attention_saved * 5 * heads / t * b * s * s / static_cast<double>(layout.context);
  }
  const double whole = tokens * (replicated + split) + scores;
  const double boundary = 2 * tokens * h / (layout.sequence ? t : 1);
  switch (layout.recompute) {
    case RecomputeKind::kNone:
      return {whole, 0};
    case RecomputeKind::kSelective:
      return {whole - scores, scores};
    case RecomputeKind::kAlternate:
      return {tokens * (0.5 * replicated + 0.5 * split), whole};
    case RecomputeKind::kFull:
      return {boundary, whole};
  }
  return {whole, 0};
}

enum class Stage : std::uint8_t { kFirst, kSecond, kLast };

/// Layers' worth of activations that a stage holds at its peak.
double layers_in_flight(const TrainingRun& run, double stage_layers, Stage stage) {
  const RunLayout& layout = run.layout;
  const auto p = static_cast<double>(layout.pipeline);
  const auto v = static_cast<double>(layout.interleave);
  const auto m = static_cast<double>(run.micro_batches());
  const double whole = m * stage_layers;
  if (layout.pipeline == 1) return stage_layers;
  const double after = stage == Stage::kFirst ? 0 : (stage == Stage::kSecond ? 1 : p - 1);
  const double chunk = stage_layers / v;
  switch (layout.schedule) {
    case PipelineKind::kOneFOneB:
      return std::min(whole, stage_layers * (p - after));
    case PipelineKind::kInterleaved:  // Warm-up chunks of Narayanan et al. 2021, and the one at
                                      // work.
      return std::min(whole, chunk * (2 * (p - after - 1) + (v - 1) * p + 1));
    case PipelineKind::kZeroBubbleOne:
      return std::min(whole, stage_layers * p);
    case PipelineKind::kZeroBubbleTwo:
      return std::min(whole, stage_layers * (2 * p - 1));
  }
  return whole;
}

struct StateBytes {
  double parameters, gradients, optimizer;
};

/// Per parameter of a rank, by how they are sharded.
StateBytes state_bytes(const TrainingRun& run) {
  const double shards = static_cast<double>(run.layout.data * run.layout.context);
  // A flat optimizer keeps the 16-bit gradients beside their fp32 sums.
  const double sums = run.software.flat_optimizer ? 6 : 4;
  const double gradient = run.software.fp32_gradients ? sums : 2;
  const double states = run.software.flat_optimizer ? 16 : 12;
  switch (run.layout.sharding) {
    case 0:
      return {2, gradient, 12};
    case 1:
      return {2, gradient, states / shards};
    case 2:
      return {2, 4 / shards, 12 / shards};
    default:
      return {4 / shards, 4 / shards, 8 / shards};
  }
}

RankMemory stage_memory(const TrainingRun& run, Stage stage, double layers,
                        const MemoryConstants& constants) {
  const RunLayout& layout = run.layout;
  const auto t = static_cast<double>(layout.tensor);
  const bool alone = layout.pipeline == 1;
  const double edges = alone && !run.model.tied ? 2 : 1;
  const double tables = stage == Stage::kSecond ? 0 : edges;
  const double per_layer = run.model.layer_parameters() / t;
  const double parameters = layers * per_layer + tables * run.model.embedding_parameters() / t;
  const StateBytes state = state_bytes(run);
  const LayerBytes layer = layer_bytes(run, constants);
  const double tokens = static_cast<double>(layout.micro_batch * run.model.sequence) /
                        static_cast<double>(layout.context);

  RankMemory memory;
  memory.parameters = parameters * state.parameters;
  memory.gradients = parameters * state.gradients;
  memory.optimizer = parameters * state.optimizer;
  memory.activations =
      layers_in_flight(run, layers, stage) * layer.kept + constants.working_layers * layer.whole;
  if (stage == Stage::kLast || alone) {
    const double columns = static_cast<double>(run.model.vocab) / t;
    memory.logits =
        (run.software.fused_loss ? constants.fused_logits_bytes : constants.logits_bytes) * tokens *
            columns +
        2 * tokens * static_cast<double>(run.model.hidden);
  }
  if (layout.sharding == 3) {
    // This layer's and the next one's, and the gradients; or one layer's, where tensors go alone.
    memory.gathered = (run.software.tensor_gathers ? 2 + 2 : 2 * 2 + 4) * per_layer;
  }
  return memory;
}

}  // namespace

RankMemory rank_memory(const TrainingRun& run, MemoryMeasure measure, RankPlace place,
                       const MemoryConstants& constants) {
  const internal::StageCut cut = internal::cut_stages(run.model, run.layout);
  RankMemory memory = stage_memory(run, Stage::kFirst, cut.first, constants);
  if (run.layout.pipeline > 1) {
    const RankMemory last = stage_memory(run, Stage::kLast, cut.last, constants);
    if (place == RankPlace::kLast || last.total() > memory.total()) memory = last;
  }
  if (run.layout.pipeline > 2 && place == RankPlace::kFullest) {
    const RankMemory second = stage_memory(run, Stage::kSecond, cut.inner, constants);
    if (second.total() > memory.total()) memory = second;
  }
  if (measure != MemoryMeasure::kAllocated) {
    memory.fragmentation = constants.fragmentation * (memory.activations + memory.logits);
    if (run.software.flat_optimizer) {
      memory.fragmentation +=
          constants.flat_fragmentation * (memory.parameters + memory.gradients + memory.optimizer);
    }
  }
  if (measure == MemoryMeasure::kDevice) {
    const RunLayout& layout = run.layout;
    const double communicators = (layout.tensor > 1) + (layout.data > 1) +
                                 2.0 * (layout.pipeline > 1) + (layout.context > 1);
    memory.device = constants.context_bytes + communicators * constants.channel_bytes;
  }
  return memory;
}

}  // namespace quadrille
