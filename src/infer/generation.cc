// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/generation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "infer/token_drawer.h"
#include "quadrille/base/random.h"
#include "quadrille/model/decoder.h"

namespace quadrille::internal {
namespace {

/// Samples that are decoded together: a weight that is read once then serves as many tokens.
constexpr std::int64_t kSamplesTogether = 16;
constexpr std::int64_t kPromptPart = 512;  ///< Prompt tokens that go through the model at a time.

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

/// One text to write.
struct Sample {
  std::int64_t number = 0;        ///< As `emit` is told.
  std::int64_t of_prompt = 0;     ///< Its number among those of its prompt.
  std::vector<std::int32_t> ids;  ///< Prompt and what was drawn.
  std::string pending;            ///< Text not emitted yet.
  bool ended = false;             ///< It drew an end of text.
};

/// Samples that are decoded together. The first is emitted as it comes; the others, which come at
/// the same time, when it is done.
class SampleGroup {
 public:
  SampleGroup(InferenceModel& model, const SamplingOptions& options, const Emit& emit)
      : model_(model), options_(options), emit_(emit), window_(window_of(model.job)) {}

  /// Makes room for `count` samples at a time.
  Result<void> lease(std::int64_t count) {
    QD_ASSIGN_OR_RETURN(decoder_, Decoder::create(*model_.model, {.stream = model_.stream.get(),
                                                                  .pool = model_.pool.get(),
                                                                  .weights = &model_.weights,
                                                                  .batch = count,
                                                                  .capacity = window_,
                                                                  .most_new = kPromptPart}));
    // Words that the tokenizer does not have are never drawn.
    const std::int64_t known =
        std::min<std::int64_t>(model_.job.model.vocab, model_.tokenizer->vocabulary());
    QD_ASSIGN_OR_RETURN(drawer_, TokenDrawer::create(*model_.stream, *model_.pool,
                                                     {.rows = count, .known = known}));
    return {};
  }

  /// False when `emit` asked to stop.
  Result<bool> run(std::vector<Sample> samples) {
    samples_ = std::move(samples);
    decoder_->clear();
    if (options_.tokens == 0) return true;
    QD_RETURN_IF_ERROR(start());
    for (std::int64_t position = 1; position < options_.tokens; ++position) {
      if (!emit_pending(samples_.front())) return false;
      if (std::all_of(samples_.begin(), samples_.end(), [](const auto& s) { return s.ended; })) {
        break;
      }
      QD_RETURN_IF_ERROR(go_on(position));
    }
    return std::all_of(samples_.begin(), samples_.end(),
                       [&](Sample& sample) { return emit_pending(sample); });
  }

  [[nodiscard]] const GenerationReport& report() const { return report_; }

 private:
  /// Feeds the prompts, each once, and draws the first tokens.
  Result<void> start() {
    for (std::size_t first = 0; first < samples_.size();) {
      std::size_t end = first + 1;
      const std::vector<std::int32_t> prompt = samples_[first].ids;
      while (end < samples_.size() && samples_[end].ids == prompt) ++end;
      QD_ASSIGN_OR_RETURN(const TensorView logits, feed(first, prompt));
      for (std::size_t i = first; i < end; ++i) {
        decoder_->copy_sequence(static_cast<std::int64_t>(first), static_cast<std::int64_t>(i));
        QD_RETURN_IF_ERROR(draw(logits, {&i, 1}, 0));
      }
      first = end;
    }
    return {};
  }

  /// One more token of every sample that has not ended. Where the last one would pass the window's
  /// end, the cache is made anew from the last half window, so that it is full again only half a
  /// window on.
  Result<void> go_on(std::int64_t position) {
    std::vector<NextToken> next;
    std::vector<std::size_t> stepping;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (samples_[i].ended) continue;
      const auto sequence = static_cast<std::int64_t>(i);
      if (decoder_->past(sequence) < window_) {
        next.push_back({sequence, samples_[i].ids.back()});
        stepping.push_back(i);
        continue;
      }
      decoder_->clear(sequence);
      const auto half = static_cast<std::size_t>(std::max<std::int64_t>(1, window_ / 2));
      QD_ASSIGN_OR_RETURN(const TensorView logits, feed(i, std::span(samples_[i].ids).last(half)));
      QD_RETURN_IF_ERROR(draw(logits, {&i, 1}, position));
    }
    if (next.empty()) return {};
    const Seconds began = monotonic_now();
    QD_ASSIGN_OR_RETURN(const TensorView logits, decoder_->step(next));
    QD_RETURN_IF_ERROR(draw(logits, stepping, position));
    report_.decode_seconds += monotonic_now() - began;
    report_.decoded_tokens += static_cast<std::int64_t>(next.size());
    return {};
  }

  Result<TensorView> feed(std::size_t sample, std::span<const std::int32_t> ids) {
    const Seconds began = monotonic_now();
    QD_ASSIGN_OR_RETURN(const TensorView logits,
                        decoder_->prompt(static_cast<std::int64_t>(sample), ids));
    QD_RETURN_IF_ERROR(model_.stream->synchronize());
    report_.prompt_tokens += static_cast<std::int64_t>(ids.size());
    report_.prompt_seconds += monotonic_now() - began;
    return logits;
  }

  /// Draws the token at `position` of the samples that `logits` [n, V] are of.
  Result<void> draw(const TensorView& logits, std::span<const std::size_t> samples,
                    std::int64_t position) {
    std::vector<double> draws;
    for (const std::size_t i : samples) {
      draws.push_back(uniform_draw(options_.seed, samples_[i].of_prompt, position));
    }
    QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids, drawer_.draw(logits, options_, draws));
    for (std::size_t i = 0; i < ids.size(); ++i) take(samples_[samples[i]], ids[i]);
    report_.new_tokens += static_cast<std::int64_t>(ids.size());
    return {};
  }

  void take(Sample& sample, std::int32_t id) const {
    sample.ids.push_back(id);
    sample.ended = sample.ended || model_.tokenizer->end_of_text() == id;
    if (!sample.ended) sample.pending += model_.tokenizer->token_text(id);
  }

  bool emit_pending(Sample& sample) {
    std::string text;
    text.swap(sample.pending);
    return text.empty() || emit_(sample.number, text);
  }

  InferenceModel& model_;
  const SamplingOptions& options_;
  const Emit& emit_;
  std::int64_t window_;
  std::vector<Sample> samples_;
  std::unique_ptr<Decoder> decoder_;
  TokenDrawer drawer_;
  GenerationReport report_;
};

}  // namespace

std::int64_t window_of(const JobSpec& job) {
  return std::min(job.model.context, job.training.sequence);
}

Result<GenerationReport> generate_samples(InferenceModel& model,
                                          std::span<const std::string> prompts,
                                          const SamplingOptions& options, const Emit& emit) {
  QD_RETURN_IF_ERROR(check(options));
  std::vector<Sample> waiting;
  for (const std::string& prompt : prompts) {
    QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids, prompt_ids(model, prompt));
    for (std::int64_t i = 0; i < options.samples; ++i) {
      waiting.push_back(
          {.number = static_cast<std::int64_t>(waiting.size()), .of_prompt = i, .ids = ids});
    }
  }
  if (waiting.empty()) return GenerationReport{};
  SampleGroup group(model, options, emit);
  QD_RETURN_IF_ERROR(
      group.lease(std::min(kSamplesTogether, static_cast<std::int64_t>(waiting.size()))));
  for (std::size_t first = 0; first < waiting.size();) {
    const std::size_t count =
        std::min(static_cast<std::size_t>(kSamplesTogether), waiting.size() - first);
    const auto begin = waiting.begin() + static_cast<std::ptrdiff_t>(first);
    QD_ASSIGN_OR_RETURN(
        const bool wanted,
        group.run({std::make_move_iterator(begin),
                   std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(count))}));
    if (!wanted) break;
    first += count;
  }
  return group.report();
}

}  // namespace quadrille::internal
