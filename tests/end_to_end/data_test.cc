// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// From lines of JSON to a trained model by way of token files, and what is refused on the way.

#include "end_to_end/fixture.h"

namespace quadrille::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TokenFilePath : public CommandLineTest {
 protected:
  TokenFilePath() {
    std::ofstream lines(path("stories.jsonl"));
    const std::string text = small_text(20000);
    for (std::size_t begin = 0; begin < text.size(); begin += 400) {
      lines << write_json(Json::object().set("story", text.substr(begin, 400))) << "\n";
    }
  }

  void prepare() const {
    const CommandResult result =
        quadrille({"data", "prepare", "stories.jsonl", "-o", "stories.bin", "--field", "story"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("20,000 tokens in 50 documents"));
  }
  [[nodiscard]] CommandResult launch_on(const std::string& data) const {
    return quadrille({"launch", "job.json", "--run-dir", "run", "--ranks", "2", "--set",
                      "data.train=\"" + data + "\""});
  }
};

TEST_F(TokenFilePath, PreparesLinesOfJsonTrainsOnThemAndWrites) {
  prepare();
  train("text");
  const CommandResult result = launch_on("stories.bin");
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_THAT(result.errors, testing::Not(HasSubstr("warning")));
  // The lines are the text cut into documents, and bytes know no separator: the same stream.
  const std::vector<double> from_text = losses_of(path("text"));
  const std::vector<double> from_tokens = losses_of(path("run"));
  ASSERT_EQ(from_tokens.size(), from_text.size());
  for (std::size_t i = 0; i < from_text.size(); ++i) {
    EXPECT_LT(std::abs(from_tokens[i] - from_text[i]) / from_text[i], 1e-5) << i;
  }
  const CommandResult written = quadrille({"generate", "run", "--prompt", "the", "--tokens", "8"});
  EXPECT_EQ(written.exit_code, 0) << written.errors;
  EXPECT_EQ(written.output.substr(0, 3), "the");
  const CommandResult loss = quadrille({"evaluate", "run", "--data", "stories.bin", "--json"});
  EXPECT_EQ(loss.exit_code, 0) << loss.errors;
}

TEST_F(TokenFilePath, InspectTellsWhatAFileHolds) {
  prepare();
  const CommandResult text = quadrille({"data", "inspect", "stories.bin", "--documents", "1"});
  ASSERT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, AllOf(HasSubstr("llm.c"), HasSubstr("20,000 tokens of 2 bytes"),
                                 HasSubstr("\"bytes\""), HasSubstr("stories.jsonl"),
                                 HasSubstr(small_text(400).substr(0, 60))));
  const CommandResult json = quadrille({"data", "inspect", "stories.bin", "--json"});
  ASSERT_EQ(json.exit_code, 0);
  const auto facts = parse_json(json.output, {});
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->integer_or("tokens", 0), 20000);
  EXPECT_EQ(facts->integer_or("documents", 0), 50);
}

TEST_F(TokenFilePath, DamagedAndForeignFilesAreRefusedBeforeTheRun) {
  prepare();
  const auto whole = read_text_file(path("stories.bin"));
  ASSERT_TRUE(whole);
  const auto refused = [&](const std::string& words) {
    const CommandResult result = launch_on("x.bin");
    EXPECT_EQ(result.exit_code, 2) << words << result.output;
    EXPECT_THAT(result.errors, AllOf(HasSubstr("x.bin"), HasSubstr(words)));
    EXPECT_FALSE(path_exists(path("run")));
    EXPECT_EQ(quadrille({"data", "inspect", "x.bin"}).exit_code, 2);
  };
  write_job("x.bin", "not a token file");
  refused("magic");
  write_job("x.bin", whole->substr(0, 2000));
  refused("truncated");
  write_job("x.bin", whole->substr(0, 8));
  refused("header");
  // Without its sidecar it is a file of which nobody knows what made it: said, and read.
  write_job("x.bin", *whole);
  const CommandResult unknown = launch_on("x.bin");
  EXPECT_EQ(unknown.exit_code, 0) << unknown.errors;
  EXPECT_THAT(unknown.errors, AllOf(HasSubstr("warning"), HasSubstr("x.bin")));
  const auto events = read_text_file(path("run/events.jsonl"));
  ASSERT_TRUE(events);
  EXPECT_THAT(*events, AllOf(HasSubstr("data_opened"), HasSubstr("which tokenizer made")));
}

TEST_F(TokenFilePath, AnUnusableLineIsNamedAndNothingIsLeft) {
  const CommandResult result = quadrille({"data", "prepare", "stories.jsonl", "-o", "stories.bin"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("stories.jsonl:1"), HasSubstr("\"story\"")));
  EXPECT_FALSE(path_exists(path("stories.bin")) || path_exists(path("stories.bin.partial")));
  EXPECT_EQ(quadrille({"data", "prepare", "absent.txt", "-o", "a.bin"}).exit_code, 2);
  EXPECT_EQ(quadrille({"data", "prepare"}).exit_code, 2);
}

}  // namespace
}  // namespace quadrille::test
