// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/generation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/random.h"
#include "quadrille/model/decoder.h"

namespace quadrille::internal {
namespace {

/// Samples that are decoded together: a weight that is read once then serves as many tokens.
constexpr std::int64_t kSamplesTogether = 8;
constexpr std::int64_t kPromptPart = 128;  ///< Prompt tokens that go through the model at a time.

Result<void> check(const SamplingOptions& options) {
  if (options.tokens < 0) return fail(Code::kInvalid, "the number of tokens is negative");
  if (options.samples < 1) return fail(Code::kInvalid, "at least one sample must be asked for");
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    return fail(Code::kInvalid, "the temperature must be 0 (greedy) or a positive number");
  }
  if (options.top_k < 0) return fail(Code::kInvalid, "top-k must be 0 (off) or a positive number");
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return fail(Code::kInvalid, "top-p must be above 0 and at most 1 (off)");
  }
  return {};
}

/// The prompt's last tokens that fit the window. A model without an end-of-text token begins a text
/// with a new line, others with that token.
Result<std::vector<std::int32_t>> prompt_ids(const InferenceModel& model, std::string_view prompt) {
  QD_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids, model.tokenizer->encode(prompt));
  if (ids.empty()) {
    if (const auto end = model.tokenizer->end_of_text()) {
      ids.push_back(*end);
    } else {
      QD_ASSIGN_OR_RETURN(ids, model.tokenizer->encode("\n"));
    }
  }
  const auto window = static_cast<std::size_t>(window_of(model.job));
  if (ids.size() > window) {
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(window));
  }
  return ids;
}

/// 53 uniform bits in [0, 1).
double uniform_draw(std::uint64_t seed, std::int64_t sample, std::int64_t position) {
  const RandomStream stream(seed, RandomPurpose::kSampling, static_cast<std::uint64_t>(sample));
  const auto first = 2 * static_cast<std::uint64_t>(position);
  const std::uint64_t bits = (std::uint64_t{stream.bits(first)} << 32) | stream.bits(first + 1);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// Samples first ... first + count - 1. The first is emitted as it comes; the others, which come at
/// the same time, when it is done.
class SampleGroup {
 public:
  SampleGroup(InferenceModel& model, const SamplingOptions& options, const Emit& emit)
      : model_(model), options_(options), emit_(emit), window_(window_of(model.job)) {}

  /// False when `emit` asked to stop.
  Result<bool> run(const std::vector<std::int32_t>& prompt, std::int64_t first,
                   std::int64_t count) {
    first_ = first;
    decoder_.reset();  // the last group's cache goes before the next one is made
    samples_.assign(static_cast<std::size_t>(count), Sample{.ids = prompt});
    QD_ASSIGN_OR_RETURN(decoder_, Decoder::create(*model_.model, {.stream = model_.stream.get(),
                                                                  .pool = model_.pool.get(),
                                                                  .batch = count,
                                                                  .capacity = window_,
                                                                  .most_new = kPromptPart}));
    std::int64_t fresh = static_cast<std::int64_t>(prompt.size());
    for (std::int64_t position = 0; position < options_.tokens; ++position) {
      QD_ASSIGN_OR_RETURN(const std::vector<float> logits, feed_last(fresh));
      QD_ASSIGN_OR_RETURN(const bool wanted, draw(logits, position));
      if (!wanted) return false;
      if (std::all_of(samples_.begin(), samples_.end(), [](const auto& s) { return s.ended; })) {
        break;
      }
      fresh = 1;
    }
    return emit_rest();
  }

 private:
  struct Sample {
    std::vector<std::int32_t> ids;  ///< Prompt and what was drawn.
    std::string pending;            ///< Text not emitted yet.
    bool ended = false;             ///< It drew an end of text.
  };

  /// The last `fresh` tokens of each sample are new. Where they would pass the window's end, the
  /// cache is made anew from the last half window, so that it is full again only half a window on.
  Result<std::vector<float>> feed_last(std::int64_t fresh) {
    if (decoder_->past() + fresh > window_) {
      decoder_->clear();
      fresh = std::max<std::int64_t>(1, window_ / 2);
    }
    std::vector<std::int32_t> ids;
    for (const Sample& sample : samples_) {
      ids.insert(ids.end(), sample.ids.end() - static_cast<std::ptrdiff_t>(fresh),
                 sample.ids.end());
    }
    return decoder_->feed(ids);
  }

  /// Draws one token of every sample. False when `emit` asked to stop.
  Result<bool> draw(const std::vector<float>& logits, std::int64_t position) {
    // Words that the tokenizer does not have are never drawn.
    const auto vocab = static_cast<std::size_t>(model_.job.model.vocab);
    const auto known = std::min(vocab, static_cast<std::size_t>(model_.tokenizer->vocabulary()));
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab);
      std::vector<float> of_sample(begin, begin + static_cast<std::ptrdiff_t>(known));
      if (!std::all_of(of_sample.begin(), of_sample.end(),
                       [](float x) { return std::isfinite(x); })) {
        return fail(Code::kInvalid, "the model's logits are not finite: its weights are damaged");
      }
      const double uniform =
          uniform_draw(options_.seed, first_ + static_cast<std::int64_t>(i), position);
      take(samples_[i], sample_token(std::move(of_sample), options_, uniform));
    }
    return emit_pending(0);
  }

  void take(Sample& sample, std::int32_t id) const {
    sample.ids.push_back(id);
    sample.ended = sample.ended || model_.tokenizer->end_of_text() == id;
    if (!sample.ended) sample.pending += model_.tokenizer->token_text(id);
  }

  bool emit_pending(std::size_t index) {
    std::string text;
    text.swap(samples_[index].pending);
    return text.empty() || emit_(first_ + static_cast<std::int64_t>(index), text);
  }

  bool emit_rest() {
    for (std::size_t i = 1; i < samples_.size(); ++i) {
      if (!emit_pending(i)) return false;
    }
    return true;
  }

  InferenceModel& model_;
  const SamplingOptions& options_;
  const Emit& emit_;
  std::int64_t window_;
  std::int64_t first_ = 0;
  std::vector<Sample> samples_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace

std::int64_t window_of(const JobSpec& job) {
  return std::min(job.model.context, job.training.sequence);
}

Result<void> generate_samples(InferenceModel& model, std::string_view prompt,
                              const SamplingOptions& options, const Emit& emit) {
  QD_RETURN_IF_ERROR(check(options));
  QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids, prompt_ids(model, prompt));
  SampleGroup group(model, options, emit);
  for (std::int64_t first = 0; first < options.samples; first += kSamplesTogether) {
    const std::int64_t count = std::min(kSamplesTogether, options.samples - first);
    QD_ASSIGN_OR_RETURN(const bool wanted, group.run(ids, first, count));
    if (!wanted) return {};
  }
  return {};
}

}  // namespace quadrille::internal
