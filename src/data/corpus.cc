// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "data/token_stream.h"
#include "quadrille/base/file.h"
#include "quadrille/base/text.h"

namespace quadrille {
namespace {

using internal::open_data_file;
using internal::OpenedFile;
using internal::PageOrder;
using internal::StreamPlace;
using internal::TokenStream;

/// A part of a stream: what is trained on, or what is kept out of training.
struct Window {
  const TokenStream* stream = nullptr;
  std::int64_t first = 0;
  std::int64_t tokens = 0;
};

Diagnostic about(std::string path, std::string wrong, std::string right) {
  return {"", 0, std::move(path), std::move(wrong), std::move(right)};
}

std::string quoted(const std::string& path) { return "\"" + path + "\""; }

/// What the files of one list of the job have to agree with.
struct Expected {
  std::string key;  ///< "data.train"
  const Tokenizer& tokenizer;
  const TokenizerRecord& record;
};

/// Text whose tokenizer is not "bytes" becomes ids in memory, four bytes each; a large corpus is
/// better prepared once.
Result<OpenedFile> open_encoded(const std::string& path, const Tokenizer& tokenizer) {
  QD_ASSIGN_OR_RETURN(OpenedFile file, open_data_file(path));
  if (file.format != TokenFormat::kText || tokenizer.files().empty()) return file;
  constexpr std::size_t kPart = 8 << 20;
  StreamingEncoder encoder(
      tokenizer, {.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))});
  std::vector<std::int32_t> ids;
  std::string_view rest(reinterpret_cast<const char*>(file.data.bytes().data()),
                        file.data.bytes().size());
  while (!rest.empty()) {
    QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> part, encoder.feed(rest.substr(0, kPart)));
    ids.insert(ids.end(), part.begin(), part.end());
    rest.remove_prefix(std::min(kPart, rest.size()));
  }
  QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> last, encoder.finish());
  ids.insert(ids.end(), last.begin(), last.end());
  file.encoded = std::move(ids);
  return file;
}

/// What a glob takes along without being meant: a sidecar as text, a pair by both of its files.
std::string unmeant(const TokenStream& stream, const OpenedFile& file) {
  constexpr std::string_view kSidecar = ".bin.json";
  if (file.path.ends_with(kSidecar) &&
      path_exists(file.path.substr(0, file.path.size() - std::string_view(".json").size()))) {
    return quoted(file.path) + " is the sidecar of a token file";
  }
  for (const OpenedFile& earlier : stream.files()) {
    if (file.data.path() == earlier.data.path() && file.path != earlier.path) {
      return fmt::format("{} and {} name the same pair", quoted(earlier.path), quoted(file.path));
    }
  }
  return {};
}

/// Opens `paths` in order; every file that fails is a diagnostic.
TokenStream open_stream(const std::vector<std::string>& paths, const Expected& expected,
                        Error& problems) {
  TokenStream stream(expected.tokenizer.end_of_text());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    auto file = open_encoded(paths[i], expected.tokenizer);
    if (file) {
      const std::string wrong = unmeant(stream, *file);
      if (wrong.empty()) {
        stream.append(std::move(*file));
        continue;
      }
      file = fail(Code::kInvalid, wrong);
    }
    if (file.error().code == Code::kNotFound) problems.code = Code::kNotFound;
    problems.diagnostics.push_back(
        about(fmt::format("{}[{}]", expected.key, i), file.error().to_text(),
              "plain text that is not empty, a .bin of llm.c or a .bin and .idx of Megatron"));
  }
  return stream;
}

/// Compares the tokenizers that sidecars record with the job's.
void check_tokenizers(const TokenStream& stream, const Expected& expected, Error& problems) {
  for (std::size_t i = 0; i < stream.files().size(); ++i) {
    const OpenedFile& file = stream.files()[i];
    if (!file.sidecar || file.sidecar->tokenizer.hash == expected.record.hash) continue;
    problems.diagnostics.push_back(
        about(fmt::format("{}[{}]", expected.key, i),
              fmt::format("{} has tokens of {}, but data.tokenizer is {}", quoted(file.path),
                          file.sidecar->tokenizer.to_text(), expected.record.to_text()),
              fmt::format("data.tokenizer to be {}, or data that was prepared with {}",
                          quoted(file.sidecar->tokenizer.name), quoted(expected.record.name))));
  }
}

/// Token files of which nothing tells what made them.
void warn_of_unknown(const TokenStream& stream, const Expected& expected,
                     std::vector<std::string>& warnings) {
  const OpenedFile* first = nullptr;
  int unknown = 0;
  for (const OpenedFile& file : stream.files()) {
    if (file.format == TokenFormat::kText || file.sidecar) continue;
    if (first == nullptr) first = &file;
    ++unknown;
  }
  if (first == nullptr) return;
  warnings.push_back(fmt::format(
      "nothing records which tokenizer made {}{}; the ids are taken to be those of {}",
      quoted(first->path),
      unknown > 1 ? fmt::format(" and {} more file{}", unknown - 1, unknown > 2 ? "s" : "") : "",
      quoted(expected.record.name)));
}

void check_vocabulary(const TokenStream& stream, const Expected& expected, std::int64_t vocabulary,
                      Error& problems) {
  stream.advise(PageOrder::kSequential);
  const std::optional<StreamPlace> place = stream.first_at_least(vocabulary);
  if (!place) return;
  problems.diagnostics.push_back(
      about(fmt::format("{}[{}]", expected.key, place->file),
            fmt::format("{} has token {} at offset {}", quoted(stream.files()[place->file].path),
                        place->token, grouped(place->offset)),
            fmt::format("tokens below model.vocab, which is {}", vocabulary)));
}

std::int64_t samples_in(std::int64_t tokens, std::int64_t sequence) {
  return tokens > 0 ? (tokens - 1) / sequence : 0;
}

/// `samples` samples need samples * T + 1 tokens, since the last target lies one past the inputs.
std::string need_text(std::int64_t samples, std::int64_t sequence, std::string_view why) {
  const auto most = checked_multiply(samples, sequence);
  return fmt::format("at least {} tokens: {} of training.sequence = {} tokens, and one more",
                     most ? grouped(*most + 1) : "2^63", why, sequence);
}

}  // namespace

struct Corpus::State {
  std::unique_ptr<Tokenizer> tokenizer;
  TokenizerRecord record;
  std::vector<std::string> warnings;
  TokenStream train_stream;
  TokenStream validation_stream;  ///< Empty where the validation part is split off.
  Window train;
  Window validation;
  std::int64_t sequence = 0;
  std::int64_t vocabulary = 0;  ///< Every token is below it.
  PageOrder order = PageOrder::kRandom;

  void split(const DataSpec& data);
  void check_lengths(const JobSpec& job, Error& problems) const;
  [[nodiscard]] const Window& window(DataPart part) const {
    return part == DataPart::kTrain ? train : validation;
  }
  [[nodiscard]] Dataset dataset(DataPart part) const {
    const std::int64_t tokens = window(part).tokens;
    return {tokens, samples_in(tokens, sequence)};
  }
};

void Corpus::State::split(const DataSpec& data) {
  const std::int64_t tokens = train_stream.tokens();
  if (!data.validation.empty()) {
    train = {&train_stream, 0, tokens};
    validation = {&validation_stream, 0, validation_stream.tokens()};
    return;
  }
  const auto kept_out =
      static_cast<std::int64_t>(std::floor(static_cast<double>(tokens) * data.validation_fraction));
  train = {&train_stream, 0, tokens - kept_out};
  validation = {&train_stream, tokens - kept_out, kept_out};
}

void Corpus::State::check_lengths(const JobSpec& job, Error& problems) const {
  const std::int64_t batch = job.training.global_batch;
  const Dataset trained = dataset(DataPart::kTrain);
  if (trained.samples < batch) {
    problems.diagnostics.push_back(about(
        "data.train",
        fmt::format("{} tokens to train on{} are {} samples", grouped(trained.tokens),
                    validation.stream == &train_stream && validation.tokens > 0
                        ? " after data.validation_fraction"
                        : "",
                    grouped(trained.samples)),
        need_text(batch, sequence, fmt::format("one training.global_batch of {} samples", batch))));
  }
  const bool files = !job.data.validation.empty();
  if ((files || job.data.validation_fraction > 0) && dataset(DataPart::kValidation).samples < 1) {
    problems.diagnostics.push_back(
        about(files ? "data.validation" : "data.validation_fraction",
              fmt::format("{} tokens to validate on", grouped(validation.tokens)),
              need_text(1, sequence, "one sample")));
  }
}

Result<std::unique_ptr<Corpus>> Corpus::open(const JobSpec& job) {
  QD_CHECK(job.training.sequence > 0);
  QD_CHECK(job.training.global_batch > 0);
  QD_CHECK(job.data.validation_fraction >= 0 && job.data.validation_fraction <= 1);
  auto state = std::make_unique<State>();
  QD_ASSIGN_OR_RETURN(state->tokenizer, make_tokenizer(job.data.tokenizer));
  state->record = record_of(*state->tokenizer, job.data.tokenizer);
  Error problems{Code::kInvalid, "the job's data cannot be used", {}};
  if (job.data.train.empty()) {
    problems.diagnostics.push_back(about("data.train", "no files", "at least one file"));
  }
  const Expected train{"data.train", *state->tokenizer, state->record};
  const Expected validation{"data.validation", *state->tokenizer, state->record};
  state->train_stream = open_stream(job.data.train, train, problems);
  state->validation_stream = open_stream(job.data.validation, validation, problems);
  if (!problems.diagnostics.empty()) return fail(std::move(problems));

  for (const auto& [stream, expected] : {std::pair(&state->train_stream, &train),
                                         std::pair(&state->validation_stream, &validation)}) {
    check_tokenizers(*stream, *expected, problems);
    warn_of_unknown(*stream, *expected, state->warnings);
  }
  if (!problems.diagnostics.empty()) return fail(std::move(problems));
  state->split(job.data);
  state->sequence = job.training.sequence;
  state->check_lengths(job, problems);
  state->vocabulary = job.model.vocab;
  check_vocabulary(state->train_stream, train, job.model.vocab, problems);
  check_vocabulary(state->validation_stream, validation, job.model.vocab, problems);
  if (!problems.diagnostics.empty()) return fail(std::move(problems));

  state->order =
      job.data.order == SampleOrder::kShuffled ? PageOrder::kRandom : PageOrder::kSequential;
  state->train_stream.advise(state->order);
  state->validation_stream.advise(PageOrder::kSequential);
  return std::unique_ptr<Corpus>(new Corpus(std::move(state)));
}

Corpus::Corpus(std::unique_ptr<State> state) : state_(std::move(state)) {}
Corpus::~Corpus() = default;

const Tokenizer& Corpus::tokenizer() const { return *state_->tokenizer; }
const TokenizerRecord& Corpus::tokenizer_record() const { return state_->record; }
std::span<const std::string> Corpus::warnings() const { return state_->warnings; }
Dataset Corpus::train() const { return state_->dataset(DataPart::kTrain); }
Dataset Corpus::validation() const { return state_->dataset(DataPart::kValidation); }

void Corpus::read(DataPart part, std::int64_t sample, std::span<std::int32_t> tokens) const {
  QD_CHECK(static_cast<std::int64_t>(tokens.size()) == state_->sequence + 1);
  QD_CHECK(sample >= 0 && sample < state_->dataset(part).samples);
  const Window& window = state_->window(part);
  window.stream->read(window.first + sample * state_->sequence, tokens);
}

double Corpus::unigram_entropy(DataPart part) const {
  const Window& window = state_->window(part);
  if (window.tokens == 0) return 0.0;
  window.stream->advise(PageOrder::kSequential);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(state_->vocabulary));
  window.stream->count(window.first, window.tokens, counts);
  window.stream->advise(state_->order);
  const auto total = static_cast<double>(window.tokens);
  double entropy = 0.0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / total;
    entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace quadrille
