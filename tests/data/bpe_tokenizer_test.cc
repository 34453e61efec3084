// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Byte-level BPE against ids that other implementations gave (scripts/make_tokenizer_goldens.py),
// and against itself: back from ids to bytes, in parts, on threads.

#include <gmock/gmock.h>

#include <chrono>

#include "data/tokenizer_cases.h"

namespace quadrille {
namespace {

using test::fuzzed_text;
using test::golden;
using test::golden_cases;
using test::gpt2;
using test::streamed;
using testing::HasSubstr;

void expect_golden(const Tokenizer& tokenizer, const std::string& name,
                   const EncodeOptions& options = {}) {
  const auto cases = golden_cases(name);
  ASSERT_GT(cases.size(), 10U);
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(tokenizer.encode(text, options).value(), ids) << name << ": " << text;
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
}

TEST(BpeTokenizer, GivesTheIdsOfGpt2) {
  EXPECT_EQ(gpt2().vocabulary(), 50257);
  EXPECT_EQ(gpt2().end_of_text(), 50256);
  expect_golden(gpt2(), "gpt2/peer_cases.json");
  expect_golden(gpt2(), "gpt2/cases.json");
}

TEST(BpeTokenizer, GivesTheIdsOfATokenizerJsonLikeGpt2s) {
  const auto tokenizer = make_tokenizer(golden("gpt2_style/tokenizer.json")).value();
  expect_golden(*tokenizer, "gpt2_style/cases.json");
  expect_golden(*tokenizer, "gpt2_style/special_cases.json", {.special_tokens = true});
}

TEST(BpeTokenizer, GivesTheIdsOfATokenizerJsonLikeLlama3s) {
  const auto tokenizer = make_tokenizer(golden("llama3_style")).value();
  expect_golden(*tokenizer, "llama3_style/cases.json");
  expect_golden(*tokenizer, "llama3_style/special_cases.json", {.special_tokens = true});
  EXPECT_EQ(tokenizer->token_text(tokenizer->end_of_text().value()), "<|end_of_text|>");
  EXPECT_EQ(tokenizer->token_text(tokenizer->begin_of_text().value()), "<|begin_of_text|>");
}

TEST(BpeTokenizer, TakesAWordThatIsATokenWhereMergesAreIgnored) {
  const auto tokenizer = make_tokenizer(golden("llama3_style")).value();
  // " theatre" is in the vocabulary, and no merge leads to it.
  const auto ids = tokenizer->encode(" theatre").value();
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_EQ(tokenizer->token_text(ids[0]), " theatre");
}

TEST(BpeTokenizer, MatchesSpecialTokensOnlyWhenAsked) {
  const std::string text = "one<|endoftext|>two";
  const auto plain = gpt2().encode(text).value();
  const auto special = gpt2().encode(text, {.special_tokens = true}).value();
  EXPECT_THAT(plain, testing::Not(testing::Contains(50256)));
  EXPECT_THAT(special, testing::ElementsAre(505, 50256, 11545));
  EXPECT_EQ(gpt2().decode(plain), text);
  EXPECT_EQ(gpt2().decode(special), text);
}

TEST(BpeTokenizer, GivesBackAnyBytes) {
  const std::unique_ptr<const Tokenizer> llama = make_tokenizer(golden("llama3_style")).value();
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = fuzzed_text(seed, 1 + seed % 60, seed % 2 == 0);
    for (const Tokenizer* tokenizer : {&gpt2(), llama.get()}) {
      const auto ids = tokenizer->encode(text).value();
      ASSERT_EQ(tokenizer->decode(ids), text);
      std::string joined;
      for (const std::int32_t id : ids) joined += tokenizer->token_text(id);
      ASSERT_EQ(joined, text);
    }
  }
}

TEST(BpeTokenizer, EncodesAStreamLikeTheWholeTextHoweverItIsCut) {
  const std::unique_ptr<const Tokenizer> llama = make_tokenizer(golden("llama3_style")).value();
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = fuzzed_text(seed, 80, seed % 3 == 0);
    for (const Tokenizer* tokenizer : {&gpt2(), llama.get()}) {
      for (const bool special : {false, true}) {
        const EncodeOptions options{.special_tokens = special};
        const auto whole = tokenizer->encode(text, options).value();
        ASSERT_EQ(streamed(*tokenizer, text, 1, options), whole) << text;
        ASSERT_EQ(streamed(*tokenizer, text, 20, options), whole) << text;
      }
    }
  }
}

TEST(BpeTokenizer, KeepsBackOnlyALittleOfAStream) {
  const std::string text = test::small_text(20'000);
  StreamingEncoder encoder(gpt2());
  const auto ids = encoder.feed(text).value();
  EXPECT_GT(gpt2().decode(ids).size() + 100, text.size());
}

TEST(BpeTokenizer, GivesTheSameIdsOnSeveralThreads) {
  std::string text;
  for (std::uint64_t seed = 0; text.size() < 1'500'000; ++seed) {
    text += fuzzed_text(seed, 100, seed % 5 == 0) + test::small_text(500, seed);
  }
  const std::unique_ptr<const Tokenizer> llama = make_tokenizer(golden("llama3_style")).value();
  for (const Tokenizer* tokenizer : {&gpt2(), llama.get()}) {
    EXPECT_EQ(tokenizer->encode(text, {.threads = 4}).value(), tokenizer->encode(text).value());
  }
}

TEST(BpeTokenizer, CostsNoSquareOfALongWordsLength) {
  // "a" 1,000,000 times is one word: at a million steps for each of its merges it would take days.
  const std::string word(1'000'000, 'a');
  const auto ids = gpt2().encode(word).value();
  EXPECT_EQ(gpt2().decode(ids), word);
  // 24794 is "aaaa", the longest token of that letter only that merges lead to.
  EXPECT_EQ(ids, std::vector<std::int32_t>(250'000, 24794));
  EXPECT_EQ(streamed(gpt2(), word, 1000), ids);
}

TEST(BpeTokenizer, DecodesUnknownIdsToNothing) {
  EXPECT_EQ(gpt2().decode(std::vector<std::int32_t>{-1, 64, 50257, 1 << 30}), "a");
  EXPECT_EQ(gpt2().token_text(50257), "");
}

}  // namespace
}  // namespace quadrille
