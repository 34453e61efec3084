// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Runs with another tokenizer than bytes: the model takes its vocabulary, and a checkpoint finds it
// again.

#include "end_to_end/fixture.h"

namespace quadrille {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class WithTokenizer : public test::CommandLineTest {
 protected:
  /// A vocabulary of the 256 bytes, "th", "the" and an end of text, in a folder of the job's.
  WithTokenizer() {
    Json vocab = Json::object();
    const auto add = [&](const std::string& token) {
      vocab.set(token, static_cast<std::int64_t>(vocab.members().size()));
    };
    for (int byte = 0; byte < 256; ++byte) add(in_alphabet(byte));
    for (const char* token : {"th", "the", "<|endoftext|>"}) add(token);
    std::filesystem::create_directories(path("words"));
    std::ofstream(path("words/vocab.json")) << write_json(vocab);
    std::ofstream(path("words/merges.txt")) << "#version: 0.2\nt h\nth e\n";
  }

  /// Bytes that print are themselves (as Latin-1), the others U+0100 and on; in UTF-8.
  static std::string in_alphabet(int byte) {
    const auto prints = [](int b) {
      return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    };
    int character = byte;
    if (!prints(byte)) {
      character = 0x100;
      for (int other = 0; other < byte; ++other) character += prints(other) ? 0 : 1;
    }
    if (character < 0x80) return std::string(1, static_cast<char>(character));
    return {static_cast<char>(0xC0 | (character >> 6)),
            static_cast<char>(0x80 | (character & 0x3F))};
  }

  const std::vector<std::string> set_ = {"--set", "data.tokenizer=words"};
};

TEST_F(WithTokenizer, TheModelTakesItsVocabularyAndAMovedRunStillGenerates) {
  train("run", set_);
  const Json job = read_json_file(path("run/job.json")).value();
  EXPECT_EQ(job.find("job")->find("model")->integer_or("vocab", 0), 259);
  const std::vector<std::string> prompt{"--prompt", "the light", "--tokens", "20"};
  const auto generate = [&](std::string run) {
    std::vector<std::string> arguments{"generate", std::move(run)};
    arguments.insert(arguments.end(), prompt.begin(), prompt.end());
    return quadrille(arguments);
  };
  const auto before = generate("run");
  ASSERT_EQ(before.exit_code, 0) << before.errors;
  EXPECT_THAT(before.output, testing::StartsWith("the light"));
  std::filesystem::rename(path("run"), path("moved"));
  std::filesystem::remove_all(path("words"));
  const auto after = generate("moved");
  ASSERT_EQ(after.exit_code, 0) << after.errors;
  EXPECT_EQ(after.output, before.output);
  std::filesystem::remove_all(path("moved/checkpoints/tokenizer"));
  const auto lost = generate("moved");
  EXPECT_EQ(lost.exit_code, 2);
  EXPECT_THAT(lost.errors, AllOf(HasSubstr("not to be found"), HasSubstr("/words")));
}

TEST_F(WithTokenizer, AModelWithFewerTokensIsRefused) {
  std::vector<std::string> arguments{"plan", "job.json", "--set", "model.vocab=258"};
  arguments.insert(arguments.end(), set_.begin(), set_.end());
  const auto result = quadrille(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("model.vocab"), HasSubstr("258"), HasSubstr("259")));
}

TEST_F(WithTokenizer, AnotherTokenizerDoesNotResume) {
  train("run", set_);
  std::ofstream(path("words/merges.txt")) << "#version: 0.2\nt h\nh e\n";
  const Json vocab = read_json_file(path("words/vocab.json")).value();
  Json other = Json::object();
  for (const auto& [token, id] : vocab.members()) other.set(token == "the" ? "he" : token, id);
  std::ofstream(path("words/vocab.json")) << write_json(other);
  std::vector<std::string> arguments{"launch", "job.json", "--run-dir",
                                     "run",    "--set",    "training.steps=25"};
  arguments.insert(arguments.end(), set_.begin(), set_.end());
  const auto result = quadrille(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, HasSubstr("was trained with tokenizer"));
}

}  // namespace
}  // namespace quadrille
