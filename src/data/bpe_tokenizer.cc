// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/parallel_encoder.h"
#include "data/pcre2_splitter.h"
#include "data/word_cache.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

std::vector<AddedToken> ordinary(const std::vector<AddedToken>& tokens) {
  std::vector<AddedToken> kept;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(kept),
               [](const AddedToken& token) { return !token.special; });
  return kept;
}

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(BpeDefinition definition, const std::array<std::int32_t, 256>& byte_tokens,
               Splitter splitter)
      : definition_(std::move(definition)),
        splitter_(std::move(splitter)),
        merges_(byte_tokens, definition_.merges),
        all_added_(definition_.added),
        ordinary_added_(ordinary(definition_.added)) {
    if (definition_.ignore_merges) index_whole_words();
  }
  void set_origin(TokenizerSource source) {
    set_source(std::move(source.files), std::move(source.hash));
  }

  std::string name() const override { return definition_.name; }
  std::int64_t vocabulary() const override {
    return static_cast<std::int64_t>(definition_.tokens.size());
  }
  std::optional<std::int32_t> begin_of_text() const override { return definition_.begin_of_text; }
  std::optional<std::int32_t> end_of_text() const override { return definition_.end_of_text; }

  Result<EncodedFront> encode_front(const TextPart& part,
                                    const EncodeOptions& options) const override;
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id >= 0 && id < vocabulary()) text += definition_.tokens[static_cast<std::size_t>(id)];
    }
    return text;
  }
  std::string token_text(std::int32_t id) const override { return decode(std::span(&id, 1)); }

 private:
  void index_whole_words();
  void append_word(std::string_view word, WordCache& cache, std::vector<std::int32_t>& ids) const;
  /// Text between added tokens.
  [[nodiscard]] Result<EncodedFront> encode_words(std::string_view text, bool last) const;
  [[nodiscard]] Result<EncodedFront> encode_between(std::string_view text, bool last,
                                                    int threads) const;

  BpeDefinition definition_;
  Splitter splitter_;
  BpeMerges merges_;
  AddedTokens all_added_;
  AddedTokens ordinary_added_;
  std::unordered_map<std::string_view, std::int32_t> whole_words_;
  mutable WordCachePool caches_;
};

void BpeTokenizer::index_whole_words() {
  for (std::size_t id = 0; id < definition_.tokens.size(); ++id) {
    const std::string& bytes = definition_.tokens[id];
    if (!bytes.empty()) whole_words_.emplace(bytes, static_cast<std::int32_t>(id));
  }
  for (const AddedToken& token : definition_.added) whole_words_.erase(token.text);
}

void BpeTokenizer::append_word(std::string_view word, WordCache& cache,
                               std::vector<std::int32_t>& ids) const {
  const bool keep = word.size() <= WordCache::kLongestWord;
  if (keep) {
    const auto known = cache.find(word);
    if (!known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
  }
  const std::size_t first = ids.size();
  const auto whole = whole_words_.find(word);
  if (whole != whole_words_.end()) {
    ids.push_back(whole->second);
  } else {
    merges_.append(word, ids);
  }
  if (keep) cache.insert(word, std::span(ids).subspan(first));
}

Result<EncodedFront> BpeTokenizer::encode_words(std::string_view text, bool last) const {
  EncodedFront front;
  front.ids.reserve(text.size() / 4);
  std::unique_ptr<WordCache> cache = caches_.borrow();
  WordCursor cursor(splitter_, text, last);
  while (true) {
    QD_ASSIGN_OR_RETURN(const auto ends, cursor.next());
    if (ends.empty()) break;
    for (const std::size_t end : ends) {
      append_word(text.substr(front.bytes, end - front.bytes), *cache, front.ids);
      front.bytes = end;
    }
  }
  caches_.give_back(std::move(cache));
  return front;
}

Result<EncodedFront> BpeTokenizer::encode_between(std::string_view text, bool last,
                                                  int threads) const {
  if (threads <= 1 || !splitter_.cuts_before_space()) return encode_words(text, last);
  return encode_in_parallel(text, threads, [&](const TextPart& part) {
    return encode_words(part.text, last || !part.last);
  });
}

Result<EncodedFront> BpeTokenizer::encode_front(const TextPart& part,
                                                const EncodeOptions& options) const {
  const AddedTokens& added = options.special_tokens ? all_added_ : ordinary_added_;
  return encode_around(added, part, [&](const TextPart& between) {
    return encode_between(between.text, between.last, options.threads);
  });
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_bpe_tokenizer(BpeDefinition definition,
                                                      TokenizerSource source) {
  std::array<std::int32_t, 256> byte_tokens{};
  byte_tokens.fill(-1);
  for (std::size_t id = 0; id < definition.tokens.size(); ++id) {
    const std::string& bytes = definition.tokens[id];
    if (bytes.size() != 1) continue;
    std::int32_t& token = byte_tokens[static_cast<unsigned char>(bytes[0])];
    // An added token may be a byte as well; it comes after those that merges know.
    if (token < 0) token = static_cast<std::int32_t>(id);
  }
  const auto missing = std::find(byte_tokens.begin(), byte_tokens.end(), -1);
  if (missing != byte_tokens.end()) {
    return fail(Code::kInvalid, fmt::format("the vocabulary has no token for byte {:#04x}; "
                                            "byte-level BPE needs all 256",
                                            missing - byte_tokens.begin()));
  }
  QD_ASSIGN_OR_RETURN(Splitter splitter, Splitter::create(definition.pattern));
  auto tokenizer =
      std::make_unique<BpeTokenizer>(std::move(definition), byte_tokens, std::move(splitter));
  tokenizer->set_origin(std::move(source));
  return tokenizer;
}

}  // namespace quadrille::internal
