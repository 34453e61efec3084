// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A token stream over files, memory-mapped and never copied whole, and the samples cut from it.
// Sample i is tokens [i*T, i*T + T]: the first T are inputs, the last T targets.
//
// A file is text, a .bin shard of llm.c or a Megatron .bin with its .idx (token_file.h). Several
// files in order form one stream. Between files, and between the documents of a Megatron pair,
// stands the tokenizer's end-of-text, unless the data has one there already; the bytes tokenizer
// has none, so nothing is inserted and a sample may run from one file into the next. The
// validation part is its own files, or the last floor(tokens * fraction) tokens of the stream.
// Files must not be shortened while they are open: the kernel answers a read past their new end
// with SIGBUS.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/data/token_file.h"
#include "quadrille/data/tokenizer.h"

namespace quadrille {

struct Dataset {
  std::int64_t tokens = 0;
  std::int64_t samples = 0;  ///< floor((tokens - 1) / T).
};

enum class DataPart : std::uint8_t { kTrain, kValidation };

/// Immutable once open; every const function is safe from any number of threads.
class Corpus {
 public:
  /// Opens the job's files, separates the validation part, checks every id against the vocabulary.
  /// Files are read once for that, but for those whose width leaves no room for a larger id and
  /// those whose sidecar records the largest one and has their length and fingerprint.
  /// Errors: kNotFound, kInvalid (empty, a folder, not readable, not of its format, too short for
  /// one sample or for one global batch, made by another tokenizer than the job's, id beyond vocab
  /// with file and offset); each a diagnostic with the job's path.
  [[nodiscard]] static Result<std::unique_ptr<Corpus>> open(const JobSpec& job);
  ~Corpus();

  [[nodiscard]] const Tokenizer& tokenizer() const;
  [[nodiscard]] const TokenizerRecord& tokenizer_record() const;
  /// What is allowed and should be known: sentences without a full stop.
  [[nodiscard]] std::span<const std::string> warnings() const;
  [[nodiscard]] Dataset train() const;
  [[nodiscard]] Dataset validation() const;  ///< No samples where there is none.

  /// Tokens [i*T, i*T + T] of a sample into `tokens`, whose size is T + 1.
  void read(DataPart part, std::int64_t sample, std::span<std::int32_t> tokens) const;
  void read_train(std::int64_t sample, std::span<std::int32_t> tokens) const {
    read(DataPart::kTrain, sample, tokens);
  }
  void read_validation(std::int64_t sample, std::span<std::int32_t> tokens) const {
    read(DataPart::kValidation, sample, tokens);
  }

  /// Entropy in nats of a unigram model of a part's tokens: the loss of knowing only how often each
  /// token occurs. Reads the whole part, in one pass.
  [[nodiscard]] double unigram_entropy(DataPart part = DataPart::kTrain) const;

  struct State;

 private:
  explicit Corpus(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Which samples a step trains on: a pure function of (seed, order, samples, step), independent of
/// the layout. `sequential`: step s (from 0) has s*B ... s*B + B - 1, wrapping; `shuffled`: a
/// counter-based permutation per epoch, an epoch's last partial batch filled from the next.
class SampleOrderFunction {
 public:
  SampleOrderFunction(const JobSpec& job, std::int64_t samples);
  /// Sample number of sequence `slot` (0 ... B-1) of step `step` (from 0).
  [[nodiscard]] std::int64_t sample(std::int64_t step, std::int64_t slot) const;

 private:
  SampleOrder order_;
  std::uint64_t seed_;
  std::int64_t samples_;
  std::int64_t batch_;
};

}  // namespace quadrille
