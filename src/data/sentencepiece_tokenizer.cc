// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The library encodes a text as a whole, with a time that grows faster than its length. Where no
// piece of the model continues over a space, what stands on the two sides of one is encoded alone:
// words can be remembered, texts streamed and threads used, with the same ids.

#include "data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "data/added_tokens.h"
#include "data/parallel_encoder.h"
#include "data/word_cache.h"

namespace quadrille::internal {
namespace {

using sentencepiece::SentencePieceProcessor;

constexpr std::string_view kSpace = "\xE2\x96\x81";          // How pieces write a space.
constexpr std::string_view kUnknownText = " \xE2\x81\x87 ";  // U+2047, as the library writes it.

/// A space that continues a piece: anything but a space stands before it.
bool continues_over_space(std::string_view piece) {
  std::size_t at = 0;
  while (piece.substr(at).starts_with(kSpace)) at += kSpace.size();
  return piece.find(kSpace, at) != piece.npos;
}

std::string with_spaces(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool space = piece.starts_with(kSpace);
    text += space ? ' ' : piece[0];
    piece.remove_prefix(space ? kSpace.size() : 1);
  }
  return text;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  /// Errors: kInvalid.
  Result<void> load(const FileText& model, TokenizerSource source) {
    const auto status = processor_.LoadFromSerializedProto(model.text);
    if (!status.ok()) {
      return fail_in_file(model.path, 0, "", status.ToString(), "a SentencePiece model");
    }
    std::vector<AddedToken> control;
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      const std::string& piece = processor_.IdToPiece(id);
      if (processor_.IsControl(id) && !piece.empty()) control.push_back({piece, id, true});
      texts_.push_back(text_of(id, piece));
      cuts_before_space_ = cuts_before_space_ && !continues_over_space(piece);
    }
    special_ = AddedTokens(std::move(control));
    set_source(std::move(source.files), std::move(source.hash));
    return learn_habits();
  }

  std::string name() const override { return "sentencepiece"; }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::optional<std::int32_t> begin_of_text() const override { return known(processor_.bos_id()); }
  std::optional<std::int32_t> end_of_text() const override { return known(processor_.eos_id()); }

  Result<EncodedFront> encode_front(const TextPart& part,
                                    const EncodeOptions& options) const override;
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += token_text(id);
    // The space that encoding put before the text.
    if (adds_space_ && !ids.empty() && token_text(ids[0]).starts_with(' ')) text.erase(0, 1);
    return text;
  }
  std::string token_text(std::int32_t id) const override {
    if (id < 0 || id >= vocabulary()) return {};
    return texts_[static_cast<std::size_t>(id)];
  }

 private:
  static std::optional<std::int32_t> known(int id) {
    return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
  }
  std::string text_of(int id, const std::string& piece) const;
  Result<void> learn_habits();
  [[nodiscard]] Result<std::vector<int>> encode_whole(std::string_view text) const {
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    if (!status.ok()) return fail(Code::kInternal, "SentencePiece: " + status.ToString());
    return ids;
  }
  /// A word that begins with a space and does not begin the text.
  [[nodiscard]] Result<std::vector<int>> encode_inner_word(std::string_view word) const {
    return encode_whole(adds_space_ ? word.substr(1) : word);
  }
  [[nodiscard]] Result<EncodedFront> encode_words(const TextPart& part) const;
  [[nodiscard]] Result<EncodedFront> encode_between(const TextPart& part, int threads) const;
  Result<void> append_word(std::string_view word, WordCache& cache,
                           std::vector<std::int32_t>& ids) const;

  SentencePieceProcessor processor_;
  std::vector<std::string> texts_;  ///< By id.
  AddedTokens special_;
  bool adds_space_ = false;  ///< Before a text.
  bool cuts_before_space_ = true;
  mutable WordCachePool caches_;
};

std::string SentencePieceTokenizer::text_of(int id, const std::string& piece) const {
  if (processor_.IsUnknown(id)) return std::string(kUnknownText);
  if (processor_.IsControl(id)) return piece;
  if (!processor_.IsByte(id)) return with_spaces(piece);
  unsigned byte = 0;  // "<0x0A>"
  std::from_chars(piece.data() + std::min<std::size_t>(3, piece.size()),
                  piece.data() + piece.size(), byte, 16);
  return std::string(1, static_cast<char>(byte));
}

/// The model's normalization is not to be asked, so it is tried out.
Result<void> SentencePieceTokenizer::learn_habits() {
  std::string spelled;
  for (const std::string& piece : processor_.EncodeAsPieces("a")) spelled += piece;
  adds_space_ = spelled.starts_with(kSpace);
  cuts_before_space_ =
      cuts_before_space_ && !processor_.IsUnknown(processor_.PieceToId(std::string(kSpace)));
  if (!cuts_before_space_) return {};
  QD_ASSIGN_OR_RETURN(const std::vector<int> both, encode_whole("a b"));
  QD_ASSIGN_OR_RETURN(std::vector<int> ids, encode_whole("a"));
  QD_ASSIGN_OR_RETURN(const std::vector<int> second, encode_inner_word(" b"));
  ids.insert(ids.end(), second.begin(), second.end());
  cuts_before_space_ = ids == both;
  return {};
}

Result<void> SentencePieceTokenizer::append_word(std::string_view word, WordCache& cache,
                                                 std::vector<std::int32_t>& ids) const {
  const bool keep = word.size() <= WordCache::kLongestWord;
  const auto remembered = keep ? cache.find(word) : std::span<const std::int32_t>();
  if (!remembered.empty()) {
    ids.insert(ids.end(), remembered.begin(), remembered.end());
    return {};
  }
  QD_ASSIGN_OR_RETURN(const std::vector<int> fresh, encode_inner_word(word));
  ids.insert(ids.end(), fresh.begin(), fresh.end());
  if (keep && !fresh.empty() && fresh.size() <= WordCache::kLongestWord) cache.insert(word, fresh);
  return {};
}

Result<EncodedFront> SentencePieceTokenizer::encode_words(const TextPart& part) const {
  EncodedFront front;
  std::unique_ptr<WordCache> cache = caches_.borrow();
  const std::string_view text = part.text;
  while (front.bytes < text.size()) {
    const std::size_t end = next_space_between_words(text, front.bytes + 1);
    if (end == text.size() && !part.last) break;
    const std::string_view word = text.substr(front.bytes, end - front.bytes);
    if (part.first && front.bytes == 0) {
      QD_ASSIGN_OR_RETURN(front.ids, encode_whole(word));
    } else {
      QD_RETURN_IF_ERROR(append_word(word, *cache, front.ids));
    }
    front.bytes = end;
  }
  caches_.give_back(std::move(cache));
  return front;
}

Result<EncodedFront> SentencePieceTokenizer::encode_between(const TextPart& part,
                                                            int threads) const {
  if (!cuts_before_space_) {
    if (!part.last) return EncodedFront{};
    QD_ASSIGN_OR_RETURN(std::vector<int> ids, encode_whole(part.text));
    return EncodedFront{std::move(ids), part.text.size()};
  }
  if (threads <= 1) return encode_words(part);
  return encode_in_parallel(part.text, threads, [&](const TextPart& piece) {
    return encode_words(
        {.text = piece.text, .first = part.first && piece.first, .last = part.last || !piece.last});
  });
}

Result<EncodedFront> SentencePieceTokenizer::encode_front(const TextPart& part,
                                                          const EncodeOptions& options) const {
  if (!options.special_tokens) return encode_between(part, options.threads);
  return encode_around(special_, part, [&](const TextPart& between) {
    return encode_between(between, options.threads);
  });
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_sentencepiece_tokenizer(const FileText& model,
                                                                TokenizerSource source) {
  auto tokenizer = std::make_unique<SentencePieceTokenizer>();
  QD_RETURN_IF_ERROR(tokenizer->load(model, std::move(source)));
  return tokenizer;
}

}  // namespace quadrille::internal
