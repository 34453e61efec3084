// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Token files longer than memory wants to hold: holes with marks in them, which take no room.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "data/sample_text.h"
#include "data/token_bytes.h"
#include "quadrille/data/corpus.h"

namespace quadrille {
namespace {

using data_test::corpus_job;
using data_test::Folder;
using data_test::llmc_header;
using data_test::MegatronParts;

constexpr std::int64_t kSequence = 1024;

/// A file of `length` bytes, all zero but `bytes` at `place`; false where the disk takes no holes.
bool write_sparse(const std::string& path, std::int64_t length, std::int64_t place,
                  const std::string& bytes) {
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  EXPECT_GE(file, 0);
  const bool good =
      ::ftruncate(file, length) == 0 &&
      ::pwrite(file, bytes.data(), bytes.size(), place) == static_cast<ssize_t>(bytes.size());
  ::close(file);
  return good;
}

void overwrite(const std::string& path, std::int64_t place, const std::string& bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::pwrite(file, bytes.data(), bytes.size(), place), static_cast<ssize_t>(bytes.size()));
  ::close(file);
}

/// Expects `token` at stream position `at`, zero beside it.
void expect_mark(const Corpus& corpus, std::int64_t at, std::int32_t token) {
  std::vector<std::int32_t> tokens(kSequence + 1);
  corpus.read_train(at / kSequence, tokens);
  EXPECT_EQ(tokens[static_cast<std::size_t>(at % kSequence)], token) << at;
  EXPECT_EQ(tokens[static_cast<std::size_t>(at % kSequence) + 1], 0) << at;
}

// 1.5 * 2^30 tokens of two bytes: the shard's bytes pass 2^31, its tokens do not.
TEST(LargeFile, ReachesTokensOfAShardBeyondTwoGibibytes) {
  const Folder folder;
  constexpr std::int64_t kTokens = 3LL << 29;
  constexpr std::int64_t kBytes = 1024 + 2 * kTokens;
  const std::string path = folder.path("large.bin");
  if (!write_sparse(path, kBytes, 0, llmc_header(20240520, 1, kTokens))) {
    GTEST_SKIP() << "the file system takes no sparse file of 3 GiB";
  }
  const std::int64_t beyond = (std::int64_t{1} << 30) + 5;
  static_assert(1024 + 2 * ((std::int64_t{1} << 30) + 5) > (std::int64_t{1} << 31));
  overwrite(path, 1024 + 2 * beyond, "\x39\x30");  // 12345
  JobSpec job = corpus_job({path}, kSequence, 1);
  job.model.vocab = 65536;
  const auto corpus = Corpus::open(job);
  ASSERT_TRUE(corpus.has_value()) << corpus.error().to_text();
  EXPECT_EQ((*corpus)->train().tokens, kTokens);
  EXPECT_EQ((*corpus)->train().samples, (kTokens - 1) / kSequence);
  expect_mark(**corpus, beyond, 12345);
}

// Three sequences of 2^30 bytes, and a second file after them: positions pass 2^31 and 2^32.
TEST(LargeFile, CountsTokensOfAStreamBeyondTwoToTheThirtyTwo) {
  const Folder folder;
  constexpr std::int64_t kGibi = 1 << 30;
  const std::string marks("\x07", 1);
  for (const char* name : {"a", "b"}) {
    if (!write_sparse(folder.path(name) + ".bin", 3 * kGibi, 3 * kGibi - 3000, marks)) {
      GTEST_SKIP() << "the file system takes no sparse file of 3 GiB";
    }
    const MegatronParts parts = MegatronParts::of({kGibi, kGibi, kGibi}, 1, 1);
    EXPECT_TRUE(path_exists(folder.write(std::string(name) + ".idx", parts.bytes())));
  }
  const auto corpus = Corpus::open(corpus_job({folder.path("a"), folder.path("b")}, kSequence, 1));
  ASSERT_TRUE(corpus.has_value()) << corpus.error().to_text();
  EXPECT_EQ((*corpus)->train().tokens, 6 * kGibi);
  expect_mark(**corpus, 3 * kGibi - 3000, 7);
  expect_mark(**corpus, 6 * kGibi - 3000, 7);
}

TEST(LargeFile, FindsAnIdBeyondTheVocabularyAtTheEndOfALongShard) {
  const Folder folder;
  constexpr std::int64_t kTokens = 1 << 26;
  const std::string path = folder.path("long.bin");
  if (!write_sparse(path, 1024 + 2 * kTokens, 0, llmc_header(20240520, 1, kTokens))) {
    GTEST_SKIP() << "the file system takes no sparse file";
  }
  overwrite(path, 1024 + 2 * (kTokens - 1), "\x2C\x01");  // 300
  JobSpec job = corpus_job({path}, kSequence, 1);
  job.model.vocab = 300;
  const auto refused = Corpus::open(job);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().to_text(), testing::HasSubstr("token 300 at offset 67,108,863"));
}

}  // namespace
}  // namespace quadrille
