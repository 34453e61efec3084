// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/prepare.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include "data/document_source.h"
#include "data/sample_text.h"
#include "data/token_writer.h"
#include "quadrille/base/json.h"
#include "quadrille/data/corpus.h"
#include "quadrille/data/inspection.h"

namespace quadrille {
namespace {

using data_test::corpus_job;
using data_test::Folder;
using data_test::varied_text;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

PrepareOptions from(std::vector<std::string> inputs, const Folder& folder) {
  PrepareOptions options;
  options.inputs = std::move(inputs);
  options.output = folder.path("out.bin");
  return options;
}

/// All training tokens of a corpus that one sample nearly covers.
std::vector<std::int32_t> tokens_of(const std::vector<std::string>& paths, std::int64_t count) {
  const auto corpus = Corpus::open(corpus_job(paths, count - 1, 1));
  EXPECT_TRUE(corpus.has_value()) << corpus.error().to_text();
  if (!corpus) return {};
  EXPECT_EQ((*corpus)->train().tokens, count);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  (*corpus)->read_train(0, tokens);
  return tokens;
}

/// Lines of JSON, `count` of them, whose texts one after the other are `*stream`.
std::string json_lines(int count, std::string* stream) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string text = "Line " + std::to_string(i) + ": \"é\"\n\t";
    text.append(static_cast<std::size_t>(i % 97), 'x');
    *stream += text;
    lines += write_json(Json::object().set("id", i).set("text", text)) + "\n";
  }
  return lines;
}

TEST(Prepare, GivesTheTokensThatTrainingOnTheTextSees) {
  const Folder folder;
  const std::vector<std::string> texts = {folder.write("a.txt", varied_text(1000)),
                                          folder.write("b.txt", varied_text(3)),
                                          folder.write("c.txt", varied_text(500))};
  const auto outcome = prepare_tokens(from(texts, folder));
  ASSERT_TRUE(outcome.has_value()) << outcome.error().to_text();
  EXPECT_EQ(outcome->tokens, 1503);
  EXPECT_EQ(outcome->documents, 3);
  EXPECT_EQ(outcome->bytes_per_token, 2);
  EXPECT_EQ(tokens_of({folder.path("out.bin")}, 1503), tokens_of(texts, 1503));
}

TEST(Prepare, WritesTheSameBytesWithAnyNumberOfThreads) {
  const Folder folder;
  std::string stream;
  // Some megabytes, so that threads get several pieces each.
  const std::string lines = folder.write("a.jsonl", json_lines(40'000, &stream));
  std::vector<std::string> hashes;
  for (const int threads : {1, 3, 8}) {
    PrepareOptions options = from({lines}, folder);
    options.threads = threads;
    std::int64_t calls = 0;
    std::int64_t last = 0;
    options.progress = [&](const PrepareProgress& progress) {
      ++calls;
      EXPECT_GE(progress.bytes_done, last);
      last = progress.bytes_done;
      EXPECT_LE(progress.bytes_done, progress.bytes_total);
      return true;
    };
    const auto outcome = prepare_tokens(options);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().to_text();
    EXPECT_EQ(outcome->documents, 40'000);
    EXPECT_GT(calls, 1);
    const auto facts = inspect_token_file(options.output, {});
    ASSERT_TRUE(facts.has_value());
    hashes.push_back(facts->hash);
  }
  EXPECT_EQ(hashes[1], hashes[0]);
  EXPECT_EQ(hashes[2], hashes[0]);
  const auto tokens = tokens_of({folder.path("out.bin")}, static_cast<std::int64_t>(stream.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(tokens[i], static_cast<unsigned char>(stream[i])) << i;
  }
}

TEST(Prepare, RecordsTokenizerCountsAndDocumentsInTheSidecar) {
  const Folder folder;
  const std::string lines = folder.write(
      "a.jsonl", "{\"story\": \"one\"}\n\n  \n{\"story\": \"\"}\n{\"story\":\"zwölf\"}");
  PrepareOptions options = from({lines}, folder);
  options.field = "story";
  const auto outcome = prepare_tokens(options);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().to_text();
  EXPECT_EQ(outcome->empty_documents, 1);
  const auto facts = inspect_token_file(options.output, {});
  ASSERT_TRUE(facts.has_value()) << facts.error().to_text();
  EXPECT_EQ(facts->tokens, 9);
  EXPECT_EQ(facts->documents, 2);
  EXPECT_EQ(facts->largest_id, 0xC3);  // The first byte of "ö".
  EXPECT_EQ(facts->largest_id, outcome->largest_id);
  ASSERT_TRUE(facts->tokenizer.has_value());
  EXPECT_EQ(facts->tokenizer->vocabulary, 256);
  EXPECT_THAT(facts->sources, ElementsAre(lines));
  ASSERT_THAT(facts->first_documents, SizeIs(2));
  EXPECT_EQ(facts->first_documents[0].text, "one");
  EXPECT_EQ(facts->first_documents[1].text, "zwölf");
  EXPECT_THAT(facts->warnings, SizeIs(0));
  EXPECT_EQ(to_json(*facts).integer_or("tokens", 0), 9);
}

TEST(Prepare, BeginsAnotherFileWithTheFirstDocumentAfterTheLimit) {
  const Folder folder;
  std::string stream;
  const std::string lines = folder.write("a.jsonl", json_lines(50, &stream));
  PrepareOptions options = from({lines}, folder);
  options.shard_tokens = 300;
  const auto outcome = prepare_tokens(options);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().to_text();
  ASSERT_GT(outcome->files.size(), 2U);
  EXPECT_EQ(outcome->files[1].path, folder.path("out-00001.bin"));
  std::vector<std::string> paths;
  for (const PreparedFile& file : outcome->files) {
    paths.push_back(file.path);
    EXPECT_TRUE(file.tokens >= 300 || file.path == outcome->files.back().path) << file.path;
    EXPECT_TRUE(path_exists(file.path + ".json"));
  }
  const auto count = static_cast<std::int64_t>(stream.size());
  const auto tokens = tokens_of(paths, count);
  EXPECT_EQ(tokens.back(), static_cast<unsigned char>(stream.back()));
  EXPECT_EQ(outcome->tokens, count);
}

TEST(Prepare, StreamsALongTextInParts) {
  const Folder folder;
  const std::string text = varied_text((9 << 20) + 17);
  const std::string path = folder.write("long.txt", text);
  const auto outcome = prepare_tokens(from({path}, folder));
  ASSERT_TRUE(outcome.has_value()) << outcome.error().to_text();
  EXPECT_EQ(outcome->documents, 1);
  const auto tokens = tokens_of({folder.path("out.bin")}, static_cast<std::int64_t>(text.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(tokens[i], static_cast<unsigned char>(text[i])) << i;
  }
}

TEST(PrepareErrors, NameFileLineAndFieldAndLeaveNothingBehind) {
  const Folder folder;
  const auto refused = [&](const std::string& lines) {
    const auto outcome = prepare_tokens(from({folder.write("a.jsonl", lines)}, folder));
    EXPECT_FALSE(outcome.has_value());
    return outcome ? std::string() : outcome.error().to_text();
  };
  const std::string good = "{\"text\": \"x\"}\n";
  EXPECT_THAT(refused(good + good + "{\"txt\": \"x\"}\n"),
              AllOf(HasSubstr("a.jsonl:3"), HasSubstr("\"txt\""), HasSubstr("--field")));
  EXPECT_THAT(refused(good + "\n{\"text\": 7}\n"), HasSubstr("a.jsonl:3"));
  EXPECT_THAT(refused(good + "[1]\n"), HasSubstr("a.jsonl:2"));
  EXPECT_THAT(refused("{\"text\": \"x\n" + good), HasSubstr("a.jsonl:1"));
  EXPECT_THAT(refused("{\"text\": \"\"}\n"), HasSubstr("no text"));
  const auto names = list_folder(folder.path(""));
  ASSERT_TRUE(names.has_value());
  EXPECT_THAT(*names, ElementsAre("a.jsonl"));
}

TEST(PrepareErrors, NumberLinesAcrossPiecesOfWork) {
  const Folder folder;
  std::string stream;
  std::string lines = json_lines(30'000, &stream);
  ASSERT_GT(lines.size(), std::size_t{2} << 20);
  lines += "nonsense\n";
  const auto outcome = prepare_tokens(from({folder.write("a.jsonl", lines)}, folder));
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().to_text(), HasSubstr("a.jsonl:30001"));
}

TEST(PrepareErrors, RefuseOutputsAndInputsThatCannotBe) {
  const Folder folder;
  const std::string text = folder.write("a.txt", "abc");
  const auto refused = [](const PrepareOptions& options) {
    const auto outcome = prepare_tokens(options);
    EXPECT_FALSE(outcome.has_value());
    return outcome ? std::string() : outcome.error().to_text();
  };
  PrepareOptions options = from({text}, folder);
  options.output = folder.path("out.tokens");
  EXPECT_THAT(refused(options), AllOf(HasSubstr("out.tokens"), HasSubstr(".bin")));
  EXPECT_THAT(refused(from({folder.path("absent")}, folder)), HasSubstr("absent"));
  ASSERT_TRUE(prepare_tokens(from({text}, folder)).has_value());
  EXPECT_THAT(refused(from({folder.path("out.bin")}, folder)), HasSubstr("token file already"));
  options = from({text}, folder);
  options.tokenizer = folder.path("no-tokenizer");
  EXPECT_THAT(refused(options), HasSubstr("no-tokenizer"));
  EXPECT_TRUE(path_exists(folder.write("out.idx", "")));
  EXPECT_THAT(refused(from({text}, folder)), HasSubstr("out.idx"));
}

TEST(PrepareErrors, KeepTheFormerOutputUntilTheNewOneIsWhole) {
  const Folder folder;
  const std::string text = folder.write("a.txt", "abc");
  ASSERT_TRUE(prepare_tokens(from({text}, folder)).has_value());
  const auto before = read_text_file(folder.path("out.bin"));
  PrepareOptions stopped = from({folder.write("b.txt", "defg")}, folder);
  stopped.progress = [](const PrepareProgress&) { return false; };
  const auto outcome = prepare_tokens(stopped);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, Code::kAborted);
  const auto after = read_text_file(folder.path("out.bin"));
  ASSERT_TRUE(before && after);
  EXPECT_EQ(*after, *before);
  EXPECT_TRUE(inspect_token_file(folder.path("out.bin"), {}).has_value());
  EXPECT_FALSE(path_exists(folder.path("out.bin.partial")));
}

TEST(PrepareErrors, RefuseAnOutputThatAnotherProcessWrites) {
  const Folder folder;
  const int other = ::open(folder.path("out.bin.partial").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(other, 0);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  const auto refused = prepare_tokens(from({folder.write("a.txt", "abc")}, folder));
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("another process"));
  ::close(other);
  // What a dead one left is overwritten.
  EXPECT_TRUE(prepare_tokens(from({folder.path("a.txt")}, folder)).has_value());
}

TEST(TokenWriter, SeparatesDocumentsAndWidensForLargeIds) {
  const Folder folder;
  auto writer = internal::TokenWriter::create(folder.path("w.bin"), internal::TokenWidth::kFour);
  ASSERT_TRUE(writer.has_value());
  for (const std::int32_t id : {100'000, 7}) {
    ASSERT_TRUE((*writer)->begin_document(99).has_value());
    ASSERT_TRUE((*writer)->add(std::span(&id, 1)).has_value());
  }
  ASSERT_TRUE((*writer)->finish().has_value());
  EXPECT_FALSE(path_exists(folder.path("w.bin")));
  ASSERT_TRUE((*writer)->commit({"t", "h", 128'000, 99}, {}).has_value());
  const auto facts = inspect_token_file(folder.path("w.bin"), {});
  ASSERT_TRUE(facts.has_value()) << facts.error().to_text();
  EXPECT_EQ(facts->bytes_per_token, 4);
  EXPECT_EQ(facts->tokens, 3);
  ASSERT_THAT(facts->first_documents, SizeIs(2));
  EXPECT_THAT(facts->first_documents[1].front, ElementsAre(7));
  // The tokenizer "t" is not here: the ids are shown, and that they have no text.
  EXPECT_FALSE(facts->first_documents[0].text.has_value());
  EXPECT_THAT(facts->warnings, ElementsAre(HasSubstr("\"t\"")));
}

TEST(Inspection, ShowsTheDocumentsOfAMegatronPair) {
  const auto facts =
      inspect_token_file(std::string(QUADRILLE_SOURCE_DIR) + "/tests/data/golden/megatron_uint16",
                         {.documents = 2, .tokens = 3});
  ASSERT_TRUE(facts.has_value()) << facts.error().to_text();
  EXPECT_EQ(facts->format, TokenFormat::kMegatron);
  EXPECT_EQ(facts->documents, 4);
  EXPECT_EQ(facts->tokens, 5 + 1 + 300 + 17);
  ASSERT_THAT(facts->first_documents, SizeIs(2));
  EXPECT_EQ(facts->first_documents[0].tokens, 5);
  EXPECT_THAT(facts->first_documents[0].front,
              ElementsAre(7919, (7919 + 104729) % 50257, (7919 + 2 * 104729) % 50257));
  EXPECT_THAT(facts->warnings, ElementsAre(HasSubstr("no sidecar")));
}

}  // namespace
}  // namespace quadrille
