// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "data/tokenizer_cases.h"

namespace quadrille {
namespace {

using test::fuzzed_text;
using test::golden;
using test::golden_cases;
using testing::HasSubstr;

std::unique_ptr<Tokenizer> model(const std::string& name) {
  return make_tokenizer(golden("sentencepiece/" + name)).value();
}

TEST(SentencePiece, GivesTheIdsOfALlama2LikeModel) {
  const auto tokenizer = model("llama2_style.model");
  EXPECT_EQ(tokenizer->begin_of_text(), 1);
  EXPECT_EQ(tokenizer->end_of_text(), 2);
  for (const auto& [text, ids] : golden_cases("sentencepiece/llama2_style_cases.json")) {
    EXPECT_EQ(tokenizer->encode(text).value(), ids) << text;
    // Byte fallback and no normalization: nothing is lost.
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
}

TEST(SentencePiece, GivesTheIdsOfAUnigramModel) {
  const auto tokenizer = model("unigram.model");
  for (const auto& [text, ids] : golden_cases("sentencepiece/unigram_cases.json")) {
    EXPECT_EQ(tokenizer->encode(text).value(), ids) << text;
  }
}

TEST(SentencePiece, EncodesAStreamAndOnThreadsLikeTheWholeText) {
  for (const char* name : {"llama2_style.model", "unigram.model"}) {
    const auto tokenizer = model(name);
    std::string all;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      const std::string text = test::small_text(100, seed) + fuzzed_text(seed, 40);
      const auto whole = tokenizer->encode(text).value();
      ASSERT_EQ(test::streamed(*tokenizer, text, 1), whole) << text;
      ASSERT_EQ(test::streamed(*tokenizer, text, 30), whole) << text;
    }
    for (std::uint64_t seed = 0; all.size() < 700'000; ++seed) {
      all += fuzzed_text(seed, 40) + test::small_text(3000, seed);
    }
    EXPECT_EQ(tokenizer->encode(all, {.threads = 2}).value(), tokenizer->encode(all).value());
  }
}

TEST(SentencePiece, KeepsTheSpacesOfSingleTokens) {
  const auto tokenizer = model("llama2_style.model");
  const auto ids = tokenizer->encode("the house of them").value();
  std::string joined;
  for (const std::int32_t id : ids) joined += tokenizer->token_text(id);
  EXPECT_EQ(joined, " the house of them");
  EXPECT_EQ(tokenizer->decode(ids), "the house of them");
}

TEST(SentencePiece, MatchesControlTokensOnlyWhenAsked) {
  const auto tokenizer = model("llama2_style.model");
  EXPECT_THAT(tokenizer->encode("a</s>").value(), testing::Not(testing::Contains(2)));
  EXPECT_THAT(tokenizer->encode("a</s>", {.special_tokens = true}).value(), testing::Contains(2));
}

TEST(SentencePiece, RefusesAFileThatIsNoModel) {
  const test::TemporaryFolder folder;
  test::write_text(folder.path() + "/tokenizer.model", "not a model");
  const auto tokenizer = make_tokenizer(folder.path());
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_THAT(tokenizer.error().to_text(), HasSubstr("a SentencePiece model"));
}

}  // namespace
}  // namespace quadrille
