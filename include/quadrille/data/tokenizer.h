// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text to token ids and back. A tokenizer is immutable once made, and safe from any number of
// threads. Special tokens (such as "<|endoftext|>") are ids of their own; their text in a corpus is
// ordinary text unless an encoder is asked to match it, so that nobody's prompt ends a document.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"

namespace quadrille {

struct EncodeOptions {
  bool special_tokens = false;  ///< The text of a special token becomes that token.
  int threads = 1;              ///< At most; a short text is encoded by one.
};

/// A part of a longer text.
struct TextPart {
  std::string_view text;
  bool first = true;  ///< Nothing stands before it.
  bool last = true;   ///< Nothing will follow.
};

/// The ids of a part's front that no later text can change.
struct EncodedFront {
  std::vector<std::int32_t> ids;
  std::size_t bytes = 0;  ///< Length of that front; the whole part where it is the last one.
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// What kind it is: "bytes", "gpt2 bpe", ...
  [[nodiscard]] virtual std::string name() const = 0;
  /// One more than the largest id.
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  /// What separates documents.
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_text() const = 0;
  [[nodiscard]] virtual std::optional<std::int32_t> begin_of_text() const { return std::nullopt; }

  /// Any bytes. Nothing is added at the ends. Errors: kInvalid or kInternal where a pattern or a
  /// library gives up on the text; never for "bytes".
  [[nodiscard]] Result<std::vector<std::int32_t>> encode(std::string_view text,
                                                         const EncodeOptions& options = {}) const;
  /// The front of a part; StreamingEncoder is the way to call it.
  [[nodiscard]] virtual Result<EncodedFront> encode_front(const TextPart& part,
                                                          const EncodeOptions& options) const = 0;

  /// The inverse of encode: exact on any bytes for "bytes" and byte-level BPE; for SentencePiece
  /// as far as its normalization keeps the text. Ids outside the vocabulary decode to nothing,
  /// special tokens to their text.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// What an id adds in the middle of a text; may be a part of a UTF-8 character.
  [[nodiscard]] virtual std::string token_text(std::int32_t id) const = 0;

  /// The files that it was read from; empty for "bytes".
  [[nodiscard]] std::span<const std::string> files() const { return files_; }
  /// Of the files' contents, as hash_text writes it; empty for "bytes".
  [[nodiscard]] const std::string& hash() const { return hash_; }

 protected:
  void set_source(std::vector<std::string> files, std::string hash);

 private:
  std::vector<std::string> files_;
  std::string hash_;
};

/// "bytes": the 256 byte values. Otherwise a path: a folder with `tokenizer.json`, or `vocab.json`
/// and `merges.txt`, or `tokenizer.model`, looked for in this order; or a `tokenizer.json` or a
/// SentencePiece model itself. Errors: kNotFound, kInvalid; a diagnostic about data.tokenizer that
/// names what was expected.
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& name);

/// Copies the tokenizer's files to `folder`, in the place of what is there; make_tokenizer makes
/// the same one from it. Nothing is done for "bytes". Errors: kCorrupt where the files have changed
/// since they were read.
[[nodiscard]] Result<void> copy_tokenizer(const Tokenizer& tokenizer, const std::string& folder);

/// A job's model.vocab, or what it is by default: the size of its tokenizer's vocabulary. Opens the
/// tokenizer. Errors: those of make_tokenizer; kInvalid where the model has fewer tokens.
[[nodiscard]] Result<std::int64_t> vocabulary_for(const JobSpec& job);

/// Encodes a text that arrives in chunks cut anywhere, with the ids of the whole text at once. What
/// later chunks could still change is kept back until they come.
class StreamingEncoder {
 public:
  /// The tokenizer outlives the encoder.
  explicit StreamingEncoder(const Tokenizer& tokenizer, const EncodeOptions& options = {});

  /// The ids that are certain now. Errors: those of Tokenizer::encode.
  [[nodiscard]] Result<std::vector<std::int32_t>> feed(std::string_view chunk);
  /// The remaining ids; the next chunk begins a new text.
  [[nodiscard]] Result<std::vector<std::int32_t>> finish();

 private:
  [[nodiscard]] Result<std::vector<std::int32_t>> encode_pending(bool last);

  const Tokenizer& tokenizer_;
  EncodeOptions options_;
  std::string pending_;
  std::size_t worth_trying_ = 0;  ///< Bytes pending from which on another try is worth it.
  bool first_ = true;
};

}  // namespace quadrille
