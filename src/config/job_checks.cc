// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/job_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "config/model_checks.h"
#include "quadrille/base/text.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kByteTokens = 256;

// Factors of a product whose overflow is to be found.
std::optional<std::int64_t> product(std::initializer_list<std::int64_t> factors) {
  std::optional<std::int64_t> value = 1;
  for (const std::int64_t factor : factors) {
    if (value) value = checked_multiply(*value, factor);
  }
  return value;
}

class JobChecker {
 public:
  JobChecker(JobDraft& draft, JobFindings& findings)
      : draft_(draft),
        findings_(findings),
        model_(draft.job.model),
        training_(draft.job.training) {}

  void run() {
    complete_and_check_model(draft_, findings_);
    complete_sequence();
    check_vocabulary();
    check_sequence();
    check_length();
    check_batch();
    check_tensor_degree();
    check_learning_rate();
    check_data();
    check_sizes();
  }

 private:
  [[nodiscard]] bool given(const std::string& path) const { return findings_.is_given(path); }

  [[nodiscard]] bool has_byte_tokens() const { return draft_.job.data.tokenizer == kByteTokenizer; }

  void complete_sequence() {
    // Another tokenizer has to be opened first to be asked; vocabulary_for() does that.
    if (!given("model.vocab") && has_byte_tokens()) model_.vocab = kByteTokens;
    if (!given("model.context")) model_.context = training_.sequence;
    if (!given("training.sequence")) training_.sequence = model_.context;
    if (!given("model.context") && !given("training.sequence") &&
        findings_.sound({"model.context", "training.sequence"})) {
      findings_.report("model.context", "missing", "a whole number of tokens");
    }
  }

  void check_vocabulary() {
    if (!findings_.sound({"model.vocab", "data.tokenizer"})) return;
    if (!has_byte_tokens() || model_.vocab >= kByteTokens) return;
    findings_.report(
        "model.vocab",
        fmt::format("{} is less than the tokenizer's {} tokens", model_.vocab, kByteTokens),
        fmt::format("at least {}", kByteTokens));
  }

  void check_sequence() {
    if (!findings_.sound({"model.context", "training.sequence"})) return;
    if (training_.sequence <= model_.context) return;
    findings_.report(
        "training.sequence",
        fmt::format("{} tokens are more than model.context {}", training_.sequence, model_.context),
        fmt::format("at most {}", model_.context));
  }

  void check_length() {
    if (!findings_.sound({"training"})) return;
    const bool steps = given("training.steps");
    const bool tokens = given("training.tokens");
    if (steps && tokens) {
      findings_.report("training.tokens", "both \"steps\" and \"tokens\" are given", "one of them");
    } else if (!steps && !tokens) {
      findings_.report("training.steps", "neither \"steps\" nor \"tokens\" is given",
                       "one of them");
    } else if (tokens && findings_.sound({"training.tokens", "training.sequence", "model.context",
                                          "training.global_batch"})) {
      const std::int64_t per_step = training_.tokens_per_step();
      training_.steps = (draft_.tokens - 1) / per_step + 1;
    }
    if (!findings_.sound({"training.steps", "training.tokens", "training.warmup_steps",
                          "training.sequence", "model.context", "training.global_batch"})) {
      return;
    }
    if (training_.warmup_steps <= training_.steps) return;
    findings_.report("training.warmup_steps",
                     fmt::format("{} steps of warm-up are more than the run's {}",
                                 training_.warmup_steps, training_.steps),
                     fmt::format("at most {}", training_.steps));
  }

  void check_batch() {
    if (!findings_.sound(
            {"training.global_batch", "training.micro_batch", "parallel", "parallel.data"})) {
      return;
    }
    const std::int64_t batch = training_.global_batch;
    const std::int64_t ranks = std::max<std::int64_t>(draft_.job.parallel.data, 1);
    const std::int64_t micro_batch = std::max<std::int64_t>(training_.micro_batch, 1);
    if (ranks > batch) {
      findings_.report("parallel.data",
                       fmt::format("{} ranks are more than the {} samples of training.global_batch",
                                   ranks, batch),
                       fmt::format("at most {}", batch));
      return;
    }
    if (batch % (ranks * micro_batch) == 0) return;
    const std::int64_t unit = ranks * micro_batch;
    findings_.report(
        "training.global_batch",
        fmt::format("parallel.data {} times training.micro_batch {} does not divide {}", ranks,
                    micro_batch, batch),
        fmt::format("a multiple of {}, such as {}", unit, std::max(unit, batch / unit * unit)));
  }

  // Every rank of the tensor axis has a head, a column, a word and (with `sequence`) a row at
  // least.
  void check_tensor_degree() {
    if (!findings_.sound({"parallel", "parallel.tensor", "model.heads", "model.ffn", "model.vocab",
                          "training.sequence", "model.context", "model.family"})) {
      return;
    }
    const ParallelSpec& parallel = draft_.job.parallel;
    if (parallel.tensor == 1) return;
    if (model_.is_custom()) {
      findings_.report("parallel.tensor",
                       fmt::format("{} ranks cannot share a program's own model", parallel.tensor),
                       "1 with model.family \"custom\"");
      return;
    }
    struct Limit {
      std::string_view path;
      std::int64_t count;
    };
    const std::int64_t rows = parallel.sequence ? training_.sequence : parallel.tensor;
    for (const Limit& limit :
         {Limit{"model.heads", model_.heads}, Limit{"model.ffn", model_.ffn},
          Limit{"model.vocab", model_.vocab == 0 ? parallel.tensor : model_.vocab},
          Limit{"training.sequence", rows}}) {
      if (parallel.tensor <= limit.count) continue;
      findings_.report(
          "parallel.tensor",
          fmt::format("{} ranks are more than {} {}", parallel.tensor, limit.path, limit.count),
          fmt::format("1 to {}", limit.count));
      return;
    }
  }

  void check_learning_rate() {
    if (!findings_.sound({"training.learning_rate", "training.minimum_learning_rate"})) return;
    if (training_.minimum_learning_rate <= training_.learning_rate) return;
    findings_.report("training.minimum_learning_rate",
                     fmt::format("{} is above training.learning_rate {}",
                                 training_.minimum_learning_rate, training_.learning_rate),
                     fmt::format("at most {}", training_.learning_rate));
  }

  void check_data() {
    const DataSpec& data = draft_.job.data;
    if (given("data.train") && findings_.sound({"data.train"}) && data.train.empty()) {
      findings_.report("data.train", "no files", "at least one path or glob");
    }
    if (!findings_.sound({"data.validation", "data.validation_fraction"})) return;
    if (!data.validation.empty() && data.validation_fraction > 0) {
      findings_.report("data.validation_fraction", "there are data.validation files already",
                       "one of the two");
    }
    if (training_.evaluate_every > 0 && data.validation.empty() && data.validation_fraction == 0) {
      findings_.report("training.evaluate_every", "there is nothing to evaluate on",
                       "data.validation or data.validation_fraction as well");
    }
  }

  // Sizes that no machine has must end here: later arithmetic relies on int64 holding them.
  void check_sizes() {
    if (!findings_.sound({"model.layers", "model.hidden", "model.heads", "model.kv_heads",
                          "model.head_dimension", "model.ffn", "model.vocab", "model.context",
                          "training.sequence", "training.global_batch", "training.micro_batch",
                          "training.steps", "training.tokens"})) {
      return;
    }
    // Weights, gradients and AdamW's two moments, 4 bytes each.
    const auto parameters = checked_parameter_count(model_);
    if (!parameters || !product({*parameters, 16})) {
      findings_.report("model", "the parameters' bytes do not fit into 64 bits", "a smaller model");
    }
    const std::int64_t micro_batch = std::max<std::int64_t>(training_.micro_batch, 1);
    const std::int64_t widest =
        std::max({model_.qkv_columns() + model_.query_columns(), 2 * model_.ffn, model_.vocab});
    // About ten activations of a layer, and slack for what a planner adds up.
    if (!product({model_.layers, micro_batch, training_.sequence, widest, 4 * 64})) {
      findings_.report("training.micro_batch", "the activations' bytes do not fit into 64 bits",
                       "a smaller micro_batch, sequence or model");
    }
    if (!product({training_.steps, training_.global_batch, training_.sequence, 2})) {
      findings_.report(
          "training.steps",
          fmt::format("the tokens of {} steps do not fit into 64 bits", grouped(training_.steps)),
          "fewer steps");
    }
    if (!product({training_.evaluate_batches, training_.global_batch, training_.sequence, 2})) {
      findings_.report("training.evaluate_batches",
                       "the tokens of an evaluation do not fit into 64 bits", "fewer batches");
    }
  }

  JobDraft& draft_;
  JobFindings& findings_;
  ModelSpec& model_;
  TrainingSpec& training_;
};

}  // namespace

void complete_and_check(JobDraft& draft, JobFindings& findings) {
  JobChecker(draft, findings).run();
}

}  // namespace quadrille::internal
