// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Golden files of tokenizers, texts to try them with, and GPT-2's own files made from its merges.

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "data/byte_alphabet.h"
#include "quadrille/base/file.h"
#include "quadrille/base/json.h"
#include "quadrille/base/random.h"
#include "quadrille/data/tokenizer.h"
#include "support/tiny_run.h"

namespace quadrille::test {

inline std::string golden(const std::string& name) {
  return std::string(QUADRILLE_SOURCE_DIR) + "/tests/data/" + name;
}

struct TokenizerCase {
  std::string text;
  std::vector<std::int32_t> ids;
};

inline std::vector<TokenizerCase> golden_cases(const std::string& name) {
  const Json json = read_json_file(golden(name)).value();
  std::vector<TokenizerCase> cases;
  for (const Json& entry : json.elements()) {
    TokenizerCase next{entry.string_or("text", ""), {}};
    for (const Json& id : entry.find("ids")->elements()) {
      next.ids.push_back(static_cast<std::int32_t>(id.as_integer()));
    }
    cases.push_back(std::move(next));
  }
  return cases;
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// vocab.json and merges.txt: the vocabulary follows from the merges.
inline void write_gpt2_files(const std::string& folder) {
  const std::string merges = read_text_file(golden("gpt2/merges.txt")).value();
  std::vector<Json::Member> tokens;
  const auto add = [&](const std::string& token) {
    tokens.emplace_back(token, Json(static_cast<std::int64_t>(tokens.size())));
  };
  for (const std::uint8_t byte : internal::byte_order()) add(internal::byte_in_alphabet(byte));
  std::size_t line = merges.find('\n') + 1;  // after the version
  while (line < merges.size()) {
    const std::size_t end = merges.find('\n', line);
    std::string merged = merges.substr(line, end - line);
    merged.erase(merged.find(' '), 1);
    add(merged);
    line = end + 1;
  }
  add("<|endoftext|>");
  write_text(folder + "/vocab.json", write_json(Json::object(std::move(tokens))));
  write_text(folder + "/merges.txt", merges);
}

/// GPT-2's tokenizer, made once: it has 50,257 tokens.
inline const Tokenizer& gpt2() {
  static const std::unique_ptr<Tokenizer> tokenizer = [] {
    const TemporaryFolder folder;
    write_gpt2_files(folder.path());
    return make_tokenizer(folder.path()).value();
  }();
  return *tokenizer;
}

/// Letters, marks, digits, spaces and special texts in any order; with `broken`, bytes that are not
/// UTF-8 among them.
inline std::string fuzzed_text(std::uint64_t seed, std::size_t pieces, bool broken = false) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "b",
                                                   "the",
                                                   " the",
                                                   " of",
                                                   "ing",
                                                   "'s",
                                                   "'ll",
                                                   "'RE",
                                                   "'",
                                                   " ",
                                                   "  ",
                                                   "   ",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "1",
                                                   "23",
                                                   "456",
                                                   ".",
                                                   ",",
                                                   "!?",
                                                   "-",
                                                   "_",
                                                   "\xC3\xA9",
                                                   "e\xCC\x81",
                                                   "\xE6\x9D\xB1",
                                                   "\xF0\x9F\x9A\x80",
                                                   "\xC2\xA0",
                                                   "\xE2\x80\x83",
                                                   "\xE1\xA0\x8E",
                                                   "\xC2\x85",
                                                   "\xD9\xA3",
                                                   "\xC2\xBD",
                                                   "<|",
                                                   "|>",
                                                   "<|endoftext|>",
                                                   "Z",
                                                   std::string(1, '\0'),
                                                   "\xE2\x81\x87",
                                                   "\xE2\x96\x81",
                                                   "\xC5\xBF",
                                                   "\xEF\xBF\xBD"};
  const RandomStream random(seed, RandomPurpose::kTest, broken ? 1 : 0);
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::uint32_t bits = random.bits(i);
    if (broken && bits % 4 == 0) {
      text += static_cast<char>(bits >> 24);
    } else {
      text += kPieces[(bits >> 8) % kPieces.size()];
    }
  }
  return text;
}

/// The ids of a text that comes in chunks of 1 ... `most` bytes.
inline std::vector<std::int32_t> streamed(const Tokenizer& tokenizer, const std::string& text,
                                          std::size_t most, const EncodeOptions& options = {}) {
  StreamingEncoder encoder(tokenizer, options);
  const RandomStream random(most, RandomPurpose::kTest, 2);
  std::vector<std::int32_t> ids;
  const auto add = [&](const std::vector<std::int32_t>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
  };
  std::size_t place = 0;
  for (std::uint64_t i = 0; place < text.size(); ++i) {
    const std::size_t length = 1 + random.bits(i) % most;
    add(encoder.feed(std::string_view(text).substr(place, length)).value());
    place += length;
  }
  add(encoder.finish().value());
  return ids;
}

}  // namespace quadrille::test
