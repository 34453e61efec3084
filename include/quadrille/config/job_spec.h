// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a user asks for, as plain data: one JobSpec per JSON job. It is made by read_job
// (job_reader.h), which checks every value, and is immutable from then on; nothing rewrites it.
// Planning turns it into a Plan, and only the Plan reaches the trainer.

#include <cstdint>
#include <string>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/units.h"

namespace quadrille {

/// Which blocks the transformer is made of. gpt2: layer norm, learned positions, GELU. llama: RMS
/// norm, rotary positions, SwiGLU, grouped-query attention, no biases.
enum class ModelFamily : std::uint8_t {
  kGpt2,
  kLlama,
  kCustom,  ///< A program's own; only `vocab` and `context` mean something then.
};
inline constexpr EnumTable<ModelFamily, 3> kModelFamilyText{{{{ModelFamily::kGpt2, "gpt2"},
                                                              {ModelFamily::kLlama, "llama"},
                                                              {ModelFamily::kCustom, "custom"}}}};

enum class RopeScalingType : std::uint8_t { kNone, kLinear, kLlama3 };
inline constexpr EnumTable<RopeScalingType, 3> kRopeScalingTypeText{
    {{{RopeScalingType::kNone, "none"},
      {RopeScalingType::kLinear, "linear"},
      {RopeScalingType::kLlama3, "llama3"}}}};

/// How rotary positions stretch beyond the context that a model was first trained on. linear: all
/// frequencies are divided by `factor`. llama3: those with more than `high_freq_factor` turns in
/// `original_context` stay, those with fewer than `low_freq_factor` are divided, and between the
/// two it goes over smoothly. Source: Chen et al. 2023, "Position interpolation"; Llama 3.1's
/// reference code.
struct RopeScaling {
  RopeScalingType type = RopeScalingType::kNone;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_context = 0;  ///< Positions; only llama3 has it.
};

/// The shape of a transformer. Letters used beside buffers: L layers, H hidden, A heads, K key and
/// value heads, D head dimension, F ffn, V vocab, T sequence, B micro-batch (sequences).
struct ModelSpec {
  ModelFamily family = ModelFamily::kGpt2;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;        ///< 0: as many as heads. Only llama has fewer.
  std::int64_t head_dimension = 0;  ///< 0: hidden / heads. Only llama has another.
  std::int64_t ffn = 0;        ///< Default 4 * hidden; llama: 8/3 * hidden, up to a multiple of 64.
  std::int64_t vocab = 0;      ///< Default: the tokenizer's (256 for bytes).
  std::int64_t context = 0;    ///< Most tokens that there are positions for.
  bool tie_embeddings = true;  ///< The head uses the token embedding.
  bool bias = true;            ///< Biases in linear layers and norms.
  double dropout = 0.0;        ///< After the embedding, attention and MLP projections.
  double norm_epsilon = 1e-5;
  double rope_base = 10'000;  ///< llama
  RopeScaling rope_scaling;   ///< llama
  std::string weights;        ///< Path of what to start from; empty: fresh weights.

  [[nodiscard]] bool is_custom() const { return family == ModelFamily::kCustom; }
  [[nodiscard]] std::int64_t key_value_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  /// D
  [[nodiscard]] std::int64_t head_width() const {
    if (head_dimension != 0) return head_dimension;
    return heads == 0 ? 0 : hidden / heads;  // A custom model has no heads.
  }
  /// A*D and K*D, columns of all queries and of all keys (or values).
  [[nodiscard]] std::int64_t query_columns() const { return heads * head_width(); }
  [[nodiscard]] std::int64_t kv_columns() const { return key_value_heads() * head_width(); }
  /// (A + 2K) * D: queries, keys and values.
  [[nodiscard]] std::int64_t qkv_columns() const { return query_columns() + 2 * kv_columns(); }
  /// F, or 2F where a gate stands beside the values.
  [[nodiscard]] std::int64_t expanded_columns() const {
    return family == ModelFamily::kLlama ? 2 * ffn : ffn;
  }
  /// Norms that subtract no mean.
  [[nodiscard]] bool has_rms_norm() const { return family == ModelFamily::kLlama; }
};

enum class SampleOrder : std::uint8_t { kShuffled, kSequential };
inline constexpr EnumTable<SampleOrder, 2> kSampleOrderText{
    {{{SampleOrder::kShuffled, "shuffled"}, {SampleOrder::kSequential, "sequential"}}}};

struct DataSpec {
  std::vector<std::string> train;       ///< Files in stream order, globs expanded and sorted.
  std::vector<std::string> validation;  ///< Empty: split off by validation_fraction, or none.
  double validation_fraction = 0.0;  ///< The last part of the train stream, kept out of training.
  std::string tokenizer = "bytes";
  SampleOrder order = SampleOrder::kShuffled;
};

/// bf16: matrix products round their factors to bf16 and sum in fp32; all else is fp32, the weights
/// and the optimizer's moments too.
enum class Precision : std::uint8_t { kFp32, kBf16 };
inline constexpr EnumTable<Precision, 2> kPrecisionText{
    {{{Precision::kFp32, "fp32"}, {Precision::kBf16, "bf16"}}}};

enum class LearningRateSchedule : std::uint8_t { kConstant, kLinear, kCosine, kWsd };
inline constexpr EnumTable<LearningRateSchedule, 4> kLearningRateScheduleText{
    {{{LearningRateSchedule::kConstant, "constant"},
      {LearningRateSchedule::kLinear, "linear"},
      {LearningRateSchedule::kCosine, "cosine"},
      {LearningRateSchedule::kWsd, "wsd"}}}};

struct TrainingSpec {
  std::int64_t sequence = 0;       ///< T, tokens of a sample; at most model.context.
  std::int64_t global_batch = 32;  ///< Sequences of one optimizer step, over all ranks.
  std::int64_t micro_batch = 0;    ///< Sequences of one forward on one rank; 0 is "auto".
  std::int64_t steps = 0;  ///< Optimizer steps (from `tokens`, rounded up, if that was given).
  std::uint64_t seed = 1;
  Precision precision = Precision::kFp32;
  double learning_rate = 3e-4;
  LearningRateSchedule schedule = LearningRateSchedule::kCosine;
  std::int64_t warmup_steps = 0;
  double decay_fraction = 0.2;  ///< wsd: the last part of the run over which the rate falls.
  double minimum_learning_rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;                ///< Global gradient norm; 0 is off.
  std::int64_t evaluate_every = 0;  ///< Steps; 0 is never. The last step evaluates if this is set.
  std::int64_t patience = 0;  ///< Evaluations without a new best loss that end the run; 0: never.
  std::int64_t evaluate_batches = 8;  ///< Global batches of the validation stream, from its start.

  [[nodiscard]] std::int64_t tokens_per_step() const { return global_batch * sequence; }
};

/// The layout: degrees of the mesh, those of pipeline and context being 1 so far, and what the
/// ranks of an axis shard besides. `data == 0` is "auto".
struct ParallelSpec {
  std::int64_t data = 1;
  std::int64_t tensor = 1;    ///< Ranks that share each layer's matrices.
  bool sequence = false;      ///< They share the rows of norms, dropout and residuals as well.
  std::int64_t sharding = 0;  ///< Data-parallel ranks share nothing; 1: the optimizer's state; 2:
                              ///< gradients too; 3: parameters too.
  [[nodiscard]] bool is_auto() const { return data == 0; }
};

struct MemorySpec {
  Bytes host_limit;  ///< Per rank; 0: what the machine has, shared by its ranks.
};

struct CommunicationSpec {
  Bytes bucket = Bytes(4 << 20);  ///< Gradients are reduced in buckets of about this size.
  Seconds timeout = Seconds(60);  ///< A collective that waits longer names the culprit and fails.
  bool shared_memory = true;      ///< Ranks of one host reduce in memory that all of them map.
};

struct CheckpointSpec {
  std::int64_t every = 0;  ///< Steps; 0: only at the end.
  bool keep_best = true;   ///< The one of the best validation loss stays as well.
  std::int64_t keep = 3;   ///< Newest valid ones that stay.
  std::string directory;   ///< Empty: <run directory>/checkpoints.
  bool asynchronous = true;
};

struct ObserveSpec {
  std::int64_t log_every = 10;       ///< Steps between plain progress lines.
  std::int64_t compare_every = 100;  ///< Steps between comparisons of what ranks hold alike (and
                                     ///< after the first one); 0: never.
};

struct JobSpec {
  std::string name = "job";
  ModelSpec model;
  DataSpec data;
  TrainingSpec training;
  ParallelSpec parallel;
  MemorySpec memory;
  CommunicationSpec communication;
  CheckpointSpec checkpoint;
  ObserveSpec observe;
};

}  // namespace quadrille
