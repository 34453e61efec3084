// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text from a trained model: prompts, sampling, KV cache, many samples at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/data/tokenizer.h"

namespace quadrille {

struct SamplingOptions {
  std::int64_t tokens = 256;  ///< New tokens per sample.
  std::int64_t samples = 1;
  double temperature = 1.0;  ///< 0 is greedy.
  std::int64_t top_k = 0;    ///< 0: off.
  double top_p = 1.0;        ///< 1: off.
  std::uint64_t seed = 1;    ///< Sample i draws from (seed, i, position).
};

/// What a generation took. Tokens that leave a full window are fed again, and count as prompt.
struct GenerationReport {
  std::int64_t prompt_tokens = 0;
  Seconds prompt_seconds;
  std::int64_t new_tokens = 0;      ///< Drawn, of all samples.
  std::int64_t decoded_tokens = 0;  ///< Of them those that follow on a token, not on a prompt.
  Seconds decode_seconds;           ///< Of the decoded ones.
};

/// Draws one id from logits. `draw` is uniform in [0, 1). Ties and order are deterministic.
[[nodiscard]] std::int32_t sample_token(std::vector<float> logits, const SamplingOptions& options,
                                        double draw);

/// A model rebuilt from a checkpoint, for inference on one rank.
class LoadedModel {
 public:
  /// Reads the parameters and leaves the moments. Errors: those of the checkpoint, of its job and
  /// of a tokenizer that this version does not have; kExhausted.
  /// With bf16 the matrices that generation reads are rounded copies, half the bytes to read for
  /// each token; evaluation is fp32.
  [[nodiscard]] static Result<std::unique_ptr<LoadedModel>> open(
      const Checkpoint& checkpoint, Device& device, Precision precision = Precision::kFp32);
  ~LoadedModel();
  [[nodiscard]] const Tokenizer& tokenizer() const;
  [[nodiscard]] const TrainingState& state() const;

  /// Up to 16 samples are decoded together, since a weight that is read once serves them all; a
  /// text does not depend on which. Sample p * options.samples + i is prompt p's sample i, and
  /// draws from (seed, i, position). `emit(sample, text)` gets the samples in order: the first of
  /// those decoded together as it comes, token by token (a character of several bytes may come in
  /// parts); the others whole. Returning false stops. The window is as long as the training
  /// sequences, since later positions were never trained: a prompt longer than it keeps its end,
  /// and at its end generation goes on from its last half. An empty prompt starts from the
  /// end-of-text token, or a newline where the tokenizer has none. Errors: kInvalid for options
  /// without a meaning or logits that are not finite.
  [[nodiscard]] Result<GenerationReport> generate(
      std::span<const std::string> prompts, const SamplingOptions& options,
      const std::function<bool(std::int64_t, std::string_view)>& emit);
  [[nodiscard]] Result<GenerationReport> generate(
      std::string_view prompt, const SamplingOptions& options,
      const std::function<bool(std::int64_t, std::string_view)>& emit);

  struct Evaluation {
    double loss = 0;  ///< Mean, nats per token.
    std::int64_t tokens = 0;
    double unigram_entropy = 0;  ///< Of the data's own tokens, nats.
  };
  /// Mean loss over the samples of files (or of the job's validation data where `files` is empty).
  [[nodiscard]] Result<Evaluation> evaluate(const std::vector<std::string>& files);

 private:
  struct State;
  explicit LoadedModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
