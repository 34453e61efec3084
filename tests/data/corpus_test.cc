// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/corpus.h"

#include <gmock/gmock.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "data/sample_text.h"
#include "quadrille/base/file.h"
#include "quadrille/data/prepare.h"

namespace quadrille {
namespace {

using data_test::corpus_job;
using data_test::Folder;
using data_test::varied_text;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::int32_t> read(const Corpus& corpus, DataPart part, std::int64_t sample,
                               std::int64_t sequence) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence + 1));
  corpus.read(part, sample, tokens);
  return tokens;
}

std::vector<std::int32_t> ids(std::string_view text) {
  std::vector<std::int32_t> out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

TEST(Corpus, CutsOneStreamFromSeveralFilesWithNothingBetween) {
  const Folder folder;
  const std::vector<std::string> texts = {varied_text(17), varied_text(1), varied_text(40)};
  std::vector<std::string> paths;
  std::string stream;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    paths.push_back(folder.write("part" + std::to_string(i), texts[i]));
    stream += texts[i];
  }
  for (const std::int64_t sequence : {1, 3, 7, 57}) {
    const auto corpus = Corpus::open(corpus_job(paths, sequence, 1));
    ASSERT_TRUE(corpus.has_value()) << corpus.error().to_text();
    const auto length = static_cast<std::int64_t>(stream.size());
    ASSERT_EQ((*corpus)->train().tokens, length);
    ASSERT_EQ((*corpus)->train().samples, (length - 1) / sequence);
    for (std::int64_t i = 0; i < (*corpus)->train().samples; ++i) {
      const auto expected = ids(std::string_view(stream).substr(
          static_cast<std::size_t>(i * sequence), static_cast<std::size_t>(sequence + 1)));
      EXPECT_EQ(read(**corpus, DataPart::kTrain, i, sequence), expected) << i << " of " << sequence;
    }
  }
}

TEST(Corpus, KeepsTheLastPartOfTheStreamForValidation) {
  const Folder folder;
  const std::string text = varied_text(1000);
  JobSpec job = corpus_job({folder.write("a", text.substr(0, 930)),  //
                            folder.write("b", text.substr(930))},
                           8, 2);
  job.data.validation_fraction = 0.1;
  const auto corpus = Corpus::open(job);
  ASSERT_TRUE(corpus.has_value()) << corpus.error().to_text();
  EXPECT_EQ((*corpus)->train().tokens, 900);
  EXPECT_EQ((*corpus)->validation().tokens, 100);
  EXPECT_EQ(read(**corpus, DataPart::kValidation, 3, 8), ids(text.substr(900 + 24, 9)));
  // The last training sample ends before the first validation token.
  const std::int64_t last = (*corpus)->train().samples - 1;
  EXPECT_LE(last * 8 + 9, 900);
}

TEST(Corpus, ReadsValidationFilesOfTheirOwn) {
  const Folder folder;
  JobSpec job = corpus_job({folder.write("train", varied_text(100))}, 4, 1);
  job.data.validation = {folder.write("validation", "abcdefghi")};
  const auto corpus = Corpus::open(job);
  ASSERT_TRUE(corpus.has_value()) << corpus.error().to_text();
  EXPECT_EQ((*corpus)->train().tokens, 100);
  EXPECT_EQ((*corpus)->validation().samples, 2);
  EXPECT_EQ(read(**corpus, DataPart::kValidation, 1, 4), ids("efghi"));
}

TEST(Corpus, EncodesTextAndSeparatesFilesWhereTheTokenizerCan) {
  const Folder folder;
  const std::string tokenizer = std::string(QUADRILLE_SOURCE_DIR) + "/tests/data/gpt2_style";
  const auto encoder = make_tokenizer(tokenizer);
  ASSERT_TRUE(encoder.has_value()) << encoder.error().to_text();
  ASSERT_TRUE((*encoder)->end_of_text().has_value());
  const std::vector<std::string> texts = {"The quick brown fox.", "Jumps over\n\nlazy dogs"};
  std::vector<std::int32_t> expected;
  std::vector<std::string> paths;
  for (const std::string& text : texts) {
    if (!expected.empty()) expected.push_back(*(*encoder)->end_of_text());
    const auto part = (*encoder)->encode(text);
    ASSERT_TRUE(part.has_value());
    expected.insert(expected.end(), part->begin(), part->end());
    paths.push_back(folder.write("text" + std::to_string(paths.size()), text));
  }
  const auto sequence = static_cast<std::int64_t>(expected.size()) - 1;
  JobSpec job = corpus_job(paths, sequence, 1);
  job.model.vocab = (*encoder)->vocabulary();
  job.data.tokenizer = tokenizer;
  const auto corpus = Corpus::open(job);
  ASSERT_TRUE(corpus.has_value()) << corpus.error().to_text();
  EXPECT_EQ(read(**corpus, DataPart::kTrain, 0, sequence), expected);
  // What prepare writes is the same stream.
  PrepareOptions prepare;
  prepare.inputs = paths;
  prepare.output = folder.path("text.bin");
  prepare.tokenizer = tokenizer;
  ASSERT_TRUE(prepare_tokens(prepare).has_value());
  job.data.train = {prepare.output};
  const auto prepared = Corpus::open(job);
  ASSERT_TRUE(prepared.has_value()) << prepared.error().to_text();
  EXPECT_EQ(read(**prepared, DataPart::kTrain, 0, sequence), expected);
  // And a job with another tokenizer may not read it.
  job.data.tokenizer = "bytes";
  const auto mismatch = Corpus::open(job);
  ASSERT_FALSE(mismatch.has_value());
  EXPECT_THAT(mismatch.error().to_text(), AllOf(HasSubstr("gpt2_style"), HasSubstr("\"bytes\"")));
}

TEST(Corpus, HasNoValidationSamplesUnlessTheJobAsksForThem) {
  const Folder folder;
  const auto corpus = Corpus::open(corpus_job({folder.write("a", varied_text(50))}, 4, 1));
  ASSERT_TRUE(corpus.has_value());
  EXPECT_EQ((*corpus)->validation().samples, 0);
  EXPECT_EQ((*corpus)->unigram_entropy(DataPart::kValidation), 0.0);
}

TEST(Corpus, EntropyIsThatOfTheTokensShares) {
  const Folder folder;
  const auto even = Corpus::open(corpus_job({folder.write("even", "abcdabcdabcdabcd")}, 4, 1));
  ASSERT_TRUE(even.has_value());
  EXPECT_NEAR((*even)->unigram_entropy(), std::log(4.0), 1e-12);
  const auto skewed =
      Corpus::open(corpus_job({folder.write("x", "aaa"), folder.write("y", "aab")}, 2, 1));
  ASSERT_TRUE(skewed.has_value());
  const double expected = -(5.0 / 6) * std::log(5.0 / 6) - (1.0 / 6) * std::log(1.0 / 6);
  EXPECT_NEAR((*skewed)->unigram_entropy(), expected, 1e-12);
}

TEST(Corpus, ReadsTheSameFromManyThreadsAtOnce) {
  const Folder folder;
  const std::string text = varied_text(20'000);
  const auto corpus = Corpus::open(corpus_job({folder.write("a", text)}, 16, 1));
  ASSERT_TRUE(corpus.has_value());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = t; i < (*corpus)->train().samples; i += 2) {
        const auto expected =
            ids(std::string_view(text).substr(static_cast<std::size_t>(i * 16), 17));
        if (read(**corpus, DataPart::kTrain, i, 16) != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A file beyond 4 GiB that takes no room: a hole with marks around 2^31 and 2^32.
TEST(Corpus, ReachesOffsetsBeyondFourGibibytes) {
  const Folder folder;
  constexpr std::int64_t kLength = (std::int64_t{1} << 32) + 4096;
  const std::string path = folder.path("sparse");
  {
    const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    const bool long_enough = ::ftruncate(file, kLength) == 0;
    if (!long_enough) {
      ::close(file);
      GTEST_SKIP() << "the file system takes no sparse file of 4 GiB";
    }
    for (const int bits : {31, 32}) {
      EXPECT_EQ(::pwrite(file, "MARK", 4, (std::int64_t{1} << bits) - 2), 4);
    }
    ::close(file);
  }
  constexpr std::int64_t kSequence = 1024;
  const auto corpus = Corpus::open(corpus_job({path}, kSequence, 1));
  ASSERT_TRUE(corpus.has_value()) << corpus.error().to_text();
  EXPECT_EQ((*corpus)->train().samples, (kLength - 1) / kSequence);
  for (const int bits : {31, 32}) {
    const std::int64_t sample = (std::int64_t{1} << bits) / kSequence;
    const auto before = read(**corpus, DataPart::kTrain, sample - 1, kSequence);
    const auto after = read(**corpus, DataPart::kTrain, sample, kSequence);
    EXPECT_EQ(before[kSequence - 2], 'M');
    EXPECT_EQ(before[kSequence], 'R');
    EXPECT_EQ(after[0], 'R');
    EXPECT_EQ(after[1], 'K');
    EXPECT_EQ(after[2], 0);
  }
}

TEST(CorpusErrors, NameEveryUnusableFileWithItsPlaceInTheJob) {
  const Folder folder;
  JobSpec job = corpus_job(
      {folder.path("missing"), folder.write("empty", ""), folder.write("good", varied_text(100))},
      4, 1);
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  job.data.validation = {folder.path(""), folder.path("pipe")};
  const auto corpus = Corpus::open(job);
  ASSERT_FALSE(corpus.has_value());
  EXPECT_EQ(corpus.error().code, Code::kNotFound);
  ASSERT_THAT(corpus.error().diagnostics, SizeIs(4));
  EXPECT_THAT(
      corpus.error().to_text(),
      AllOf(HasSubstr("data.train[0]"), HasSubstr("No such file"), HasSubstr("data.train[1]"),
            HasSubstr("is empty"), HasSubstr("data.validation[0]"), HasSubstr("is a folder"),
            HasSubstr("data.validation[1]"), HasSubstr("is not a plain file")));
}

TEST(CorpusErrors, SayWhichFileMayNotBeRead) {
  const Folder folder;
  const std::string path = folder.write("secret", varied_text(100));
  ASSERT_EQ(::chmod(folder.path("").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  // This thread alone becomes nobody for files; root may read everything otherwise.
  const int former = ::setfsuid(65534);
  const bool readable = ::access(path.c_str(), R_OK) == 0 && ::getuid() != 0;
  const auto corpus = Corpus::open(corpus_job({path}, 4, 1));
  ::setfsuid(static_cast<uid_t>(former));
  ASSERT_FALSE(readable);
  ASSERT_FALSE(corpus.has_value());
  EXPECT_EQ(corpus.error().code, Code::kInvalid);
  EXPECT_THAT(corpus.error().to_text(),
              AllOf(HasSubstr("data.train[0]"), HasSubstr("Permission denied")));
}

TEST(CorpusErrors, SayHowManyTokensThereAreAndHowManyOneBatchNeeds) {
  const Folder folder;
  const std::string path = folder.write("short", varied_text(32));
  // 4 samples of 8 tokens need 4 * 8 + 1 = 33 tokens.
  const auto corpus = Corpus::open(corpus_job({path}, 8, 4));
  ASSERT_FALSE(corpus.has_value());
  EXPECT_EQ(corpus.error().code, Code::kInvalid);
  EXPECT_THAT(corpus.error().to_text(),
              AllOf(HasSubstr("data.train: 32 tokens"), HasSubstr("3 samples"),
                    HasSubstr("at least 33 tokens")));
  EXPECT_TRUE(
      Corpus::open(corpus_job({folder.write("enough", varied_text(33))}, 8, 4)).has_value());
}

TEST(CorpusErrors, AskForMoreTokensThanExistWithoutOverflow) {
  const Folder folder;
  const std::string path = folder.write("short", varied_text(32));
  const auto corpus =
      Corpus::open(corpus_job({path}, std::int64_t{1} << 40, std::int64_t{1} << 40));
  ASSERT_FALSE(corpus.has_value());
  EXPECT_THAT(corpus.error().to_text(), HasSubstr("at least 2^63 tokens"));
}

TEST(CorpusErrors, RefuseAValidationPartShorterThanOneSample) {
  const Folder folder;
  JobSpec job = corpus_job({folder.write("a", varied_text(100))}, 8, 1);
  job.data.validation_fraction = 0.05;
  const auto corpus = Corpus::open(job);
  ASSERT_FALSE(corpus.has_value());
  EXPECT_THAT(corpus.error().to_text(),
              AllOf(HasSubstr("data.validation_fraction: 5 tokens"), HasSubstr("at least 9")));
}

TEST(CorpusErrors, PointAtTheFirstTokenBeyondTheVocabulary) {
  const Folder folder;
  std::string text(50, 'a');
  text[41] = '\xE9';
  JobSpec job =
      corpus_job({folder.write("plain", std::string(60, 'b')), folder.write("odd", text)}, 4, 1);
  job.model.vocab = 128;
  const auto corpus = Corpus::open(job);
  ASSERT_FALSE(corpus.has_value());
  EXPECT_EQ(corpus.error().code, Code::kInvalid);
  EXPECT_THAT(corpus.error().to_text(),
              AllOf(HasSubstr("data.train[1]"), HasSubstr("token 233 at offset 41"),
                    HasSubstr("odd"), HasSubstr("128")));
  job.model.vocab = 234;
  EXPECT_TRUE(Corpus::open(job).has_value());
}

TEST(CorpusErrors, RefuseATokenizerThatDoesNotExist) {
  JobSpec job = corpus_job({"unused"}, 4, 1);
  job.data.tokenizer = "gpt2.json";
  const auto corpus = Corpus::open(job);
  ASSERT_FALSE(corpus.has_value());
  EXPECT_THAT(corpus.error().to_text(), AllOf(HasSubstr("data.tokenizer"), HasSubstr("gpt2.json")));
}

}  // namespace
}  // namespace quadrille
