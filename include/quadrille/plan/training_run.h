// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A training step on a cluster, as the cost models see it: the transformer's shape, how it is laid
// out over devices, and what the software around it does. Wider than a JobSpec: it can describe
// runs that this runtime cannot execute (fp8, pipelines of other systems), because the models are
// checked against such runs. Letters: L layers, H hidden, F ffn, V vocab, S sequence, b
// micro-batch.

#include <cstdint>
#include <string>

#include "quadrille/base/enum_text.h"
#include "quadrille/config/cluster_spec.h"

namespace quadrille {

enum class RecomputeKind : std::uint8_t { kNone, kSelective, kAlternate, kFull };
/// selective: the attention core; alternate: that, and every second matrix product; full: the
/// layer.
inline constexpr EnumTable<RecomputeKind, 4> kRecomputeKindText{
    {{{RecomputeKind::kNone, "none"},
      {RecomputeKind::kSelective, "selective"},
      {RecomputeKind::kAlternate, "alternate"},
      {RecomputeKind::kFull, "full"}}}};

enum class PipelineKind : std::uint8_t { kOneFOneB, kInterleaved, kZeroBubbleOne, kZeroBubbleTwo };
/// zero-bubble-1 keeps 1F1B's memory, zero-bubble-2 twice of it. Source: Qi et al. 2023.
inline constexpr EnumTable<PipelineKind, 4> kPipelineKindText{
    {{{PipelineKind::kOneFOneB, "1f1b"},
      {PipelineKind::kInterleaved, "interleaved"},
      {PipelineKind::kZeroBubbleOne, "zero-bubble-1"},
      {PipelineKind::kZeroBubbleTwo, "zero-bubble-2"}}}};

struct TransformerShape {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t sequence = 0;
  bool gated = false;      ///< SwiGLU: three matrices instead of two.
  bool tied = false;       ///< The head is the embedding.
  bool positions = false;  ///< Learned positions (GPT).

  [[nodiscard]] double head_width() const {
    return static_cast<double>(hidden) / static_cast<double>(heads);
  }
  [[nodiscard]] double kv_columns() const { return head_width() * static_cast<double>(kv_heads); }
  /// Parameters of one layer, of the embedding table, and of all.
  [[nodiscard]] double layer_parameters() const;
  [[nodiscard]] double embedding_parameters() const;
  [[nodiscard]] double parameters() const;
};

/// Ranks: tensor innermost, then context, data, pipeline.
struct RunLayout {
  std::int64_t data = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t interleave = 1;  ///< Chunks of layers per stage.
  bool sequence = false;        ///< Norms and residuals sharded over the tensor axis.
  int sharding = 0;             ///< 0 none, 1 optimizer, 2 + gradients, 3 + parameters.
  std::int64_t micro_batch = 1;
  PipelineKind schedule = PipelineKind::kOneFOneB;
  RecomputeKind recompute = RecomputeKind::kNone;
  bool embedding_as_layer = false;  ///< Stages are cut with embedding and head counted as layers.

  [[nodiscard]] std::int64_t ranks() const { return data * tensor * pipeline * context; }
};

/// What the training software does; stated by its kind, never fitted to a run.
struct SoftwareTraits {
  bool flash = true;              ///< Attention fused, causal half only.
  bool vendor_attention = true;   ///< The device vendor's own fused attention.
  bool fused = true;              ///< Pointwise chains fused (Transformer Engine, compilers).
  bool overlap_gradients = true;  ///< Gradients and sharded parameters move beside compute.
  bool tensor_gathers = false;    ///< Sharded parameters are gathered one tensor at a time.
  bool overlap_tensor = false;    ///< Tensor-parallel transfers move beside their products.
  bool scatter_stages = false;    ///< Stage transfers are split over the tensor axis.
  bool fused_loss = true;         ///< Cross-entropy in place: no second copies of the logits.
  bool flat_optimizer = false;    ///< The optimizer copies its shard of the gradients to fp32.
  bool fp32_gradients = false;    ///< Gradients are kept in 4 bytes.
  bool fp32_reduce = false;       ///< Gradients are reduced in 4 bytes.
};

struct TrainingRun {
  TransformerShape model = {};
  RunLayout layout = {};
  SoftwareTraits software = {};
  std::int64_t global_batch = 1;  ///< Sequences of a step.
  NumberFormat format = NumberFormat::kBf16;

  [[nodiscard]] std::int64_t micro_batches() const {
    return global_batch / (layout.data * layout.micro_batch);
  }
};

/// Errors: kInvalid with every reason: degrees whose product is not the cluster's devices, heads,
/// layers or batch that do not divide, a format that the device lacks.
[[nodiscard]] Result<void> check_run(const TrainingRun& run, const ClusterSpec& cluster);

}  // namespace quadrille
