// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/token_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "data/sample_text.h"
#include "data/token_bytes.h"
#include "data/token_sidecar.h"
#include "data/token_stream.h"
#include "quadrille/data/corpus.h"

namespace quadrille {
namespace {

using data_test::corpus_job;
using data_test::Folder;
using data_test::llmc_header;
using data_test::llmc_uint16;
using data_test::MegatronParts;
using data_test::raw;
using internal::open_data_file;
using internal::TokenStream;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Tokens = std::vector<std::int32_t>;

std::string golden(const std::string& name) {
  return std::string(QUADRILLE_SOURCE_DIR) + "/tests/data/golden/" + name;
}

/// What tests/tools/make_token_files.py says of its files.
Tokens golden_tokens(std::int64_t limit) {
  Tokens tokens;
  const std::vector<std::int64_t> lengths = {5, 1, 300, 17};
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    for (std::int64_t i = 0; i < lengths[d]; ++i) {
      const auto first = 7919 * (static_cast<std::int64_t>(d) + 1);
      tokens.push_back(static_cast<std::int32_t>((first + 104729 * i) % limit));
    }
  }
  return tokens;
}

Tokens all_of(const TokenStream& stream) {
  Tokens tokens(static_cast<std::size_t>(stream.tokens()));
  stream.read(0, tokens);
  return tokens;
}

Result<TokenStream> stream_of(const std::vector<std::string>& paths,
                              std::optional<std::int32_t> end_of_text = {}) {
  TokenStream stream(end_of_text);
  for (const std::string& path : paths) {
    auto file = open_data_file(path);
    if (!file) return fail(file.error());
    stream.append(std::move(*file));
  }
  return stream;
}

std::string refusal(const std::string& path) {
  const auto file = open_data_file(path);
  if (file) return "accepted";
  EXPECT_EQ(file.error().code, Code::kInvalid);
  EXPECT_THAT(file.error().message, HasSubstr("expected"));
  return file.error().to_text();
}

TEST(TokenFile, ReadsWhatTheToolsOfOtherTrainersWrote) {
  for (const auto& [name, limit] :
       std::vector<std::pair<std::string, std::int64_t>>{{"llmc_uint16.bin", 50257},
                                                         {"llmc_uint32.bin", 128256},
                                                         {"megatron_uint16.bin", 50257},
                                                         {"megatron_uint16.idx", 50257},
                                                         {"megatron_uint16", 50257},
                                                         {"megatron_int32.bin", 128256}}) {
    const auto stream = stream_of({golden(name)});
    ASSERT_TRUE(stream.has_value()) << stream.error().to_text();
    EXPECT_EQ(all_of(*stream), golden_tokens(limit)) << name;
  }
}

TEST(TokenFile, SeparatesMegatronsDocumentsAndNotTheirSequences) {
  const auto stream = stream_of({golden("megatron_uint16.idx")}, 50256);
  ASSERT_TRUE(stream.has_value());
  Tokens expected = golden_tokens(50257);
  // From the last to the first, so that an insertion moves no place that follows.
  for (const std::ptrdiff_t end : {306, 6, 5}) expected.insert(expected.begin() + end, 50256);
  EXPECT_EQ(all_of(*stream), expected);
  // Any part is the same as of the whole.
  for (std::int64_t first = 0; first < stream->tokens(); ++first) {
    for (const std::int64_t length : {1, 2, 7}) {
      if (first + length > stream->tokens()) continue;
      Tokens part(static_cast<std::size_t>(length));
      stream->read(first, part);
      EXPECT_EQ(part, Tokens(expected.begin() + first, expected.begin() + first + length));
    }
  }
}

TEST(TokenFile, AddsNoEndOfTextWhereTheDataHasOne) {
  const Folder folder;
  const std::vector<std::string> paths = {folder.write("a.bin", llmc_uint16({1, 2, 9})),
                                          folder.write("b.bin", llmc_uint16({3})),
                                          folder.write("c.bin", llmc_uint16({9, 4}))};
  const auto with = stream_of(paths, 9);
  ASSERT_TRUE(with.has_value());
  EXPECT_THAT(all_of(*with), ElementsAre(1, 2, 9, 3, 9, 4));
  const auto between = stream_of(paths, 8);
  ASSERT_TRUE(between.has_value());
  EXPECT_THAT(all_of(*between), ElementsAre(1, 2, 9, 8, 3, 8, 9, 4));
  std::vector<std::int64_t> counts(10);
  between->count(2, 5, counts);
  EXPECT_THAT(counts, ElementsAre(0, 0, 0, 1, 0, 0, 0, 0, 2, 2));
}

TEST(TokenFile, FollowsSequencesInTheOrderOfTheIndex) {
  const Folder folder;
  MegatronParts parts = MegatronParts::of({2, 0, 3}, 4, 4);
  parts.offsets = {12, 0, 0};
  EXPECT_TRUE(path_exists(folder.write("m.idx", parts.bytes())));
  EXPECT_TRUE(path_exists(folder.write("m.bin", raw(Tokens{10, 11, 12, 13, 14}))));
  const auto stream = stream_of({folder.path("m.bin")}, 7);
  ASSERT_TRUE(stream.has_value()) << stream.error().to_text();
  EXPECT_THAT(all_of(*stream), ElementsAre(13, 14, 7, 10, 11, 12));
}

TEST(TokenFile, CountsNegativeTokensBeyondAnyVocabulary) {
  const Folder folder;
  const std::string tokens = folder.write("m.bin", raw(Tokens{1, 2, -1, 3}));
  EXPECT_TRUE(path_exists(folder.write("m.idx", MegatronParts::of({4}, 4, 4).bytes())));
  const auto stream = stream_of({tokens});
  ASSERT_TRUE(stream.has_value());
  const auto place = stream->first_at_least(100);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->offset, 2);
  EXPECT_FALSE(stream->first_at_least(std::int64_t{1} << 32).has_value());
}

TEST(TokenFile, FindsTheFirstTokenBeyondALimitAtEveryPlace) {
  // Around the length of a block and of a vector, where loops change.
  for (const std::int64_t length : {1, 31, 32, 33, 65535, 65536, 65537, 131072}) {
    for (const std::int64_t place : {std::int64_t{0}, length / 2, length - 1}) {
      std::vector<std::uint16_t> tokens(static_cast<std::size_t>(length), 41);
      tokens[static_cast<std::size_t>(place)] = 42;
      const internal::TokenRun run{std::as_bytes(std::span(tokens)).data(), length,
                                   internal::TokenWidth::kTwo};
      EXPECT_EQ(internal::largest_token(run), 42);
      EXPECT_EQ(internal::first_at_least(run, 42), place) << length;
      EXPECT_FALSE(internal::first_at_least(run, 43).has_value());
    }
  }
}

TEST(TokenFileErrors, SayWhatIsWrongWithAnLlmcShardAndWhatWouldBeRight) {
  const Folder folder;
  const auto refused = [&](const std::string& bytes) {
    return refusal(folder.write("x.bin", bytes));
  };
  EXPECT_THAT(refused("plain text in a .bin"), AllOf(HasSubstr("x.bin"), HasSubstr("magic"),
                                                     HasSubstr("20240520"), HasSubstr("prepare")));
  EXPECT_THAT(refused(llmc_header(__builtin_bswap32(20240801), 7, 0)), HasSubstr("byte order"));
  EXPECT_THAT(refused(llmc_header(20240520, 1, 0).substr(0, 100)),
              HasSubstr("ends within its header"));
  EXPECT_THAT(refused(llmc_header(20240801, 1, 0)),
              AllOf(HasSubstr("version 1"), HasSubstr("version 7")));
  const std::string whole = llmc_uint16({1, 2, 3});
  EXPECT_THAT(
      refused(whole.substr(0, whole.size() - 1)),
      AllOf(HasSubstr("truncated"), HasSubstr("1,029"), HasSubstr("1,030"), HasSubstr("3 tokens")));
  EXPECT_THAT(refused(whole + "x"), HasSubstr("1,031 bytes"));
  // Another name does not turn a shard into text.
  EXPECT_THAT(refusal(folder.write("shard", whole.substr(0, 1025))), HasSubstr("truncated"));
}

TEST(TokenFileErrors, SayWhatIsWrongWithAMegatronIndexAndWhatWouldBeRight) {
  const Folder folder;
  const std::string bin = folder.write("m.bin", raw(std::vector<std::uint16_t>{1, 2, 3, 4, 5}));
  const MegatronParts good = MegatronParts::of({2, 3}, 2, 8);
  const auto refused = [&](const std::string& bytes) {
    return refusal(folder.write("m.idx", bytes));
  };
  EXPECT_EQ(refused(good.bytes()), "accepted");
  MegatronParts parts = good;
  parts.magic[0] = 'X';
  EXPECT_THAT(refused(parts.bytes()), AllOf(HasSubstr("m.idx"), HasSubstr("MMIDIDX")));
  parts = good;
  parts.version = __builtin_bswap64(1);
  EXPECT_THAT(refused(parts.bytes()), HasSubstr("byte order"));
  parts.version = 2;
  EXPECT_THAT(refused(parts.bytes()), HasSubstr("version 2"));
  parts = good;
  parts.type = 7;
  EXPECT_THAT(refused(parts.bytes()), AllOf(HasSubstr("float32"), HasSubstr("uint16")));
  EXPECT_THAT(refused(good.bytes().substr(0, 20)), HasSubstr("ends within its header"));
  EXPECT_THAT(refused(good.bytes().substr(0, 60)), HasSubstr("truncated"));
  parts = good;
  parts.lengths[1] = 4;
  EXPECT_THAT(refused(parts.bytes()),
              AllOf(HasSubstr("sequence 1"), HasSubstr("ends after 10 bytes")));
  parts = good;
  parts.offsets[1] = 3;
  EXPECT_THAT(refused(parts.bytes()), HasSubstr("multiple of 2"));
  parts = good;
  parts.documents = {0, 2, 1};
  EXPECT_THAT(refused(parts.bytes()), HasSubstr("rise from 0 to 2"));
  parts.documents = {0, 1};
  EXPECT_THAT(refused(parts.bytes()), HasSubstr("ends its last document at sequence 1"));
  ASSERT_EQ(::unlink(bin.c_str()), 0);
  const auto missing = open_data_file(folder.path("m.idx"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("m.bin"));
}

TEST(TokenFileErrors, RefuseIdsThatTheModelDoesNotHave) {
  const auto corpus = [](std::int64_t vocabulary) {
    JobSpec job = corpus_job({golden("llmc_uint16.bin"), golden("megatron_int32.idx")}, 8, 1);
    job.model.vocab = vocabulary;
    return Corpus::open(job);
  };
  const Tokens first = golden_tokens(50257);
  const Tokens second = golden_tokens(128256);
  const auto most = *std::max_element(second.begin(), second.end());
  const auto refused = corpus(most);
  ASSERT_FALSE(refused.has_value());
  const auto place = std::find(second.begin(), second.end(), most) - second.begin();
  EXPECT_THAT(
      refused.error().to_text(),
      AllOf(HasSubstr("data.train[1]"), HasSubstr("megatron_int32.idx"),
            HasSubstr("token " + std::to_string(most) + " at offset " + std::to_string(place)),
            HasSubstr("model.vocab, which is " + std::to_string(most))));
  const auto opened = corpus(most + 1);
  ASSERT_TRUE(opened.has_value()) << opened.error().to_text();
  EXPECT_EQ((*opened)->train().tokens, static_cast<std::int64_t>(first.size() + second.size()));
  // Nothing tells which tokenizer made them: allowed, and said.
  ASSERT_THAT((*opened)->warnings(), SizeIs(1));
  EXPECT_THAT((*opened)->warnings()[0], AllOf(HasSubstr("llmc_uint16.bin"),
                                              HasSubstr("1 more file"), HasSubstr("\"bytes\"")));
}

TEST(TokenFileErrors, RefuseWhatAGlobTakesAlong) {
  const Folder folder;
  const std::string shard = folder.write("s.bin", llmc_uint16({1, 2, 3, 4, 5}));
  const std::string sidecar = folder.write("s.bin.json.txt", "just a name");
  EXPECT_TRUE(Corpus::open(corpus_job({shard, sidecar}, 2, 1)).has_value());
  ASSERT_EQ(::rename(sidecar.c_str(), folder.path("s.bin.json").c_str()), 0);
  const auto both = Corpus::open(corpus_job({folder.path("s.bin.json")}, 2, 1));
  ASSERT_FALSE(both.has_value());
  EXPECT_THAT(both.error().to_text(), HasSubstr("sidecar"));
  const auto twice = Corpus::open(
      corpus_job({golden("megatron_uint16.bin"), golden("megatron_uint16.idx")}, 2, 1));
  ASSERT_FALSE(twice.has_value());
  EXPECT_THAT(twice.error().to_text(), AllOf(HasSubstr("data.train[1]"), HasSubstr("same pair")));
}

/// A shard whose sidecar names `tokenizer`, with `recorded` as its largest id.
std::string shard_with_sidecar(const Folder& folder, const TokenizerRecord& tokenizer,
                               std::int64_t recorded) {
  const std::string bytes = llmc_uint16({1, 2, 3, 4, 5, 200});
  internal::TokenSidecar sidecar;
  sidecar.bytes = static_cast<std::int64_t>(bytes.size());
  sidecar.fingerprint = internal::fingerprint_of(std::as_bytes(std::span(bytes)));
  sidecar.hash = "0";
  sidecar.tokens = 6;
  sidecar.documents = 1;
  sidecar.largest_id = recorded;
  sidecar.tokenizer = tokenizer;
  EXPECT_TRUE(path_exists(folder.write("s.bin.json", internal::write_sidecar(sidecar))));
  return folder.write("s.bin", bytes);
}

TEST(TokenSidecar, IsBelievedForItsOwnBytesAndComparedWithTheJobsTokenizer) {
  const Folder folder;
  const auto bytes = make_tokenizer("bytes");
  ASSERT_TRUE(bytes.has_value());
  const TokenizerRecord record = record_of(**bytes, "bytes");
  JobSpec job = corpus_job({shard_with_sidecar(folder, record, 200)}, 2, 1);
  const auto known = Corpus::open(job);
  ASSERT_TRUE(known.has_value()) << known.error().to_text();
  EXPECT_THAT((*known)->warnings(), IsEmpty());
  EXPECT_EQ((*known)->tokenizer_record().hash, record.hash);
  // The largest id comes from the sidecar alone: the file holds no 300.
  (void)shard_with_sidecar(folder, record, 300);
  job.model.vocab = 201;
  EXPECT_TRUE(Corpus::open(job).has_value());
  (void)shard_with_sidecar(folder, record, 200);
  job.model.vocab = 200;
  EXPECT_FALSE(Corpus::open(job).has_value());
  job.model.vocab = 256;
  TokenizerRecord other = record;
  other.name = "gpt2";
  other.hash = "0123456789abcdef";
  (void)shard_with_sidecar(folder, other, 200);
  const auto mismatch = Corpus::open(job);
  ASSERT_FALSE(mismatch.has_value());
  EXPECT_EQ(mismatch.error().code, Code::kInvalid);
  EXPECT_THAT(mismatch.error().to_text(),
              AllOf(HasSubstr("data.train[0]"), HasSubstr("s.bin"), HasSubstr("\"gpt2\""),
                    HasSubstr("\"bytes\""), HasSubstr(record.hash)));
}

TEST(TokenSidecar, IsRefusedBesideOtherBytes) {
  const Folder folder;
  const TokenizerRecord record{"bytes", "0", 256, {}};
  const std::string path = shard_with_sidecar(folder, record, 200);
  ASSERT_TRUE(open_data_file(path).has_value());
  EXPECT_TRUE(path_exists(folder.write("s.bin", llmc_uint16({1, 2, 3, 4, 5, 201}))));
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("s.bin.json"), HasSubstr("other tokens")));
  EXPECT_TRUE(path_exists(folder.write("s.bin", llmc_uint16({1, 2}))));
  EXPECT_THAT(refusal(path), AllOf(HasSubstr("s.bin.json"), HasSubstr("1,028")));
  EXPECT_TRUE(path_exists(folder.write("s.bin.json", "{}")));
  EXPECT_THAT(refusal(path), HasSubstr("s.bin.json"));
}

TEST(TokenSidecar, ReadsBackWhatItWrote) {
  internal::TokenSidecar sidecar;
  sidecar.bytes = 1030;
  sidecar.fingerprint = "f";
  sidecar.hash = "h";
  sidecar.tokens = 3;
  sidecar.documents = 2;
  sidecar.largest_id = 7;
  sidecar.tokenizer = {"dir/gpt2", "abc", 50257, 50256};
  sidecar.sources = {"a.jsonl", "b \"quoted\".txt"};
  sidecar.document_starts = {0, 2};
  const auto read = internal::parse_sidecar(internal::write_sidecar(sidecar), "s.json");
  ASSERT_TRUE(read.has_value()) << read.error().to_text();
  EXPECT_EQ(internal::write_sidecar(*read), internal::write_sidecar(sidecar));
  EXPECT_EQ(read->tokenizer.end_of_text, 50256);
  EXPECT_EQ(read->sources, sidecar.sources);
}

TEST(TokenSidecar, FingerprintSeesTheBeginAndTheEndOfLongFiles) {
  std::vector<std::byte> bytes(5 << 20);
  const std::string before = internal::fingerprint_of(bytes);
  for (const std::size_t place : {std::size_t{0}, bytes.size() - 1}) {
    bytes[place] = std::byte{1};
    EXPECT_NE(internal::fingerprint_of(bytes), before) << place;
    bytes[place] = std::byte{0};
  }
  EXPECT_EQ(internal::fingerprint_of(bytes), before);
  EXPECT_NE(internal::fingerprint_of(std::span(bytes).first(bytes.size() - 1)), before);
}

}  // namespace
}  // namespace quadrille
