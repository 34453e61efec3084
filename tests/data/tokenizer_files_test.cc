// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "data/tokenizer_cases.h"
#include "data/tokenizer_files.h"

namespace quadrille {
namespace {

using test::golden;
using test::write_text;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& path) {
  const auto tokenizer = make_tokenizer(path);
  return tokenizer ? "accepted" : tokenizer.error().to_text();
}

/// A small tokenizer.json after a change to its text.
std::string json_refusal(const std::string& from, const std::string& to) {
  std::string text = read_text_file(golden("llama3_style/tokenizer.json")).value();
  const std::size_t at = text.find(from);
  if (at == text.npos) return "no " + from;
  text.replace(at, from.size(), to);
  const test::TemporaryFolder folder;
  write_text(folder.path() + "/tokenizer.json", text);
  return refusal(folder.path());
}

TEST(MakeTokenizer, NamesWhatItExpectedWhereThereIsNone) {
  const test::TemporaryFolder folder;
  for (const std::string& path : {folder.path(), folder.path() + "/nowhere"}) {
    EXPECT_THAT(refusal(path), AllOf(HasSubstr("data.tokenizer"), HasSubstr(path),
                                     HasSubstr("tokenizer.json"), HasSubstr("vocab.json"),
                                     HasSubstr("tokenizer.model"), HasSubstr("\"bytes\"")));
  }
  write_text(folder.path() + "/vocab.json", "{}");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("merges.txt is missing"));
  EXPECT_THAT(refusal(folder.path() + "/vocab.json"), HasSubstr("name its folder"));
  write_text(folder.path() + "/words.txt", "a b");
  EXPECT_THAT(refusal(folder.path() + "/words.txt"), HasSubstr("no known kind"));
}

TEST(MakeTokenizer, TakesTextEndsFromTheConfigBesideIt) {
  const test::TemporaryFolder folder;
  write_text(folder.path() + "/tokenizer.json",
             read_text_file(golden("llama3_style/tokenizer.json")).value());
  const std::string config = folder.path() + "/tokenizer_config.json";
  write_text(config, R"({"bos_token": null, "eos_token": {"content": "<|eot_id|>"}})");
  const auto tokenizer = make_tokenizer(folder.path()).value();
  EXPECT_EQ(tokenizer->token_text(tokenizer->end_of_text().value()), "<|eot_id|>");
  write_text(config, R"({"eos_token": "<|nothing|>"})");
  EXPECT_THAT(refusal(folder.path()), AllOf(HasSubstr("eos_token"), HasSubstr("<|nothing|>")));
}

TEST(MakeTokenizer, RefusesATokenizerJsonThatItWouldReadWrongly) {
  EXPECT_THAT(json_refusal(R"("normalizer":null)", R"("normalizer":{"type":"NFC"})"),
              AllOf(HasSubstr("normalizer"), HasSubstr("NFC")));
  EXPECT_THAT(json_refusal(R"("type":"BPE")", R"("type":"WordPiece")"), HasSubstr("WordPiece"));
  EXPECT_THAT(json_refusal("Isolated", "Removed"), HasSubstr("Removed"));
  EXPECT_THAT(json_refusal(R"("byte_fallback":false)", R"("byte_fallback":true)"),
              HasSubstr("model.byte_fallback"));
  EXPECT_THAT(json_refusal(R"("add_prefix_space":false)", R"("add_prefix_space":true)"),
              HasSubstr("add_prefix_space"));
  EXPECT_THAT(json_refusal(R"("lstrip":false)", R"("lstrip":true)"), HasSubstr("lstrip"));
  EXPECT_THAT(json_refusal(R"("use_regex":false)", R"("use_regex":true)"), HasSubstr("use_regex"));
  EXPECT_THAT(json_refusal(R"("!":0)", R"("!":-1)"), HasSubstr("\"!\" has no id"));
  EXPECT_THAT(json_refusal(R"("!":0)", R"("!":1)"), HasSubstr("id 1 has two meanings"));
  EXPECT_THAT(json_refusal(R"("!":0,)", ""), HasSubstr("no token for byte 0x21"));
  EXPECT_THAT(json_refusal("{", "["), HasSubstr("tokenizer.json:1"));
}

TEST(MakeTokenizer, NamesTheLineOfABadMerge) {
  const internal::FileText vocabulary{"vocab.json", R"({"a": 0, "b": 1, "ab": 2})"};
  const auto message = [&](const std::string& merges) {
    const auto definition = internal::parse_gpt2_files(vocabulary, {"merges.txt", merges}, {});
    return definition ? "accepted" : definition.error().to_text();
  };
  EXPECT_EQ(message("#version: 0.2\na b\n"), "accepted");
  EXPECT_THAT(message("#version: 0.2\na b\nb a\n"),
              AllOf(HasSubstr("merges.txt:3"), HasSubstr("\"ba\"")));
  EXPECT_THAT(message("a b c\n"), AllOf(HasSubstr("merges.txt:1"), HasSubstr("two tokens")));
}

TEST(CopyTokenizer, MakesTheSameTokenizerElsewhere) {
  const test::TemporaryFolder folder;
  const std::string copy = folder.path() + "/copy";
  for (const char* name : {"llama3_style", "sentencepiece/llama2_style.model", "bytes"}) {
    const std::string path = std::string(name) == "bytes" ? name : golden(name);
    const auto tokenizer = make_tokenizer(path).value();
    ASSERT_TRUE(copy_tokenizer(*tokenizer, copy).has_value());
    if (tokenizer->files().empty()) continue;
    EXPECT_EQ(make_tokenizer(copy).value()->hash(), tokenizer->hash()) << name;
  }
}

TEST(VocabularyFor, IsTheTokenizersUnlessTheModelHasMore) {
  JobSpec job;
  job.data.tokenizer = golden("llama3_style");
  const std::int64_t own = make_tokenizer(job.data.tokenizer).value()->vocabulary();
  EXPECT_EQ(vocabulary_for(job), own);
  job.model.vocab = own + 100;
  EXPECT_EQ(vocabulary_for(job), own + 100);
  job.model.vocab = own - 1;
  EXPECT_THAT(vocabulary_for(job).error().to_text(),
              AllOf(HasSubstr("model.vocab"), HasSubstr(std::to_string(own - 1)),
                    HasSubstr(std::to_string(own)), HasSubstr("llama3_style")));
}

TEST(CopyTokenizer, RefusesFilesThatHaveChanged) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/tokenizer.json";
  write_text(file, read_text_file(golden("gpt2_style/tokenizer.json")).value());
  const auto tokenizer = make_tokenizer(file).value();
  write_text(file, read_text_file(golden("llama3_style/tokenizer.json")).value());
  const auto copied = copy_tokenizer(*tokenizer, folder.path() + "/copy");
  ASSERT_FALSE(copied.has_value());
  EXPECT_EQ(copied.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace quadrille
