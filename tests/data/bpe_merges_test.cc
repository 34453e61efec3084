// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/bpe_merges.h"

#include <gmock/gmock.h>

#include <numeric>
#include <string>

#include "quadrille/base/random.h"

namespace quadrille::internal {
namespace {

using testing::ElementsAre;

std::array<std::int32_t, 256> own_bytes() {
  std::array<std::int32_t, 256> tokens{};
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

std::vector<std::int32_t> ids_of(const BpeMerges& merges, std::string_view word) {
  std::vector<std::int32_t> ids;
  merges.append(word, ids);
  return ids;
}

TEST(BpeMerges, MergesTheBestRankFirstNotTheLeftmostPair) {
  // "bc" ranks before "ab": "abc" is a + bc.
  const BpeMerges merges(own_bytes(), {{'b', 'c', 256}, {'a', 'b', 257}});
  EXPECT_THAT(ids_of(merges, "abc"), ElementsAre('a', 256));
  EXPECT_THAT(ids_of(merges, "abab"), ElementsAre(257, 257));
}

TEST(BpeMerges, MergesTheLeftmostOfEqualPairs) {
  const BpeMerges merges(own_bytes(), {{'a', 'a', 256}});
  EXPECT_THAT(ids_of(merges, "aaa"), ElementsAre(256, 'a'));
}

TEST(BpeMerges, GivesARepeatedPairItsLaterRank) {
  const BpeMerges merges(own_bytes(), {{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 256}});
  EXPECT_THAT(ids_of(merges, "abc"), ElementsAre('a', 257));
}

TEST(BpeMerges, EncodesLongAndShortWordsAlike) {
  // Random merges over four letters and what they became, so that many compete.
  const RandomStream random(5, RandomPurpose::kTest, 0);
  std::vector<BpeMerge> list;
  std::vector<std::int32_t> tokens = {'a', 'b', 'c', 'd'};
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto token = [&](std::uint64_t draw) {
      return tokens[random.bits(draw) % tokens.size()];
    };
    list.push_back({token(2 * i), token(2 * i + 1), static_cast<std::int32_t>(256 + i)});
    tokens.push_back(static_cast<std::int32_t>(256 + i));
  }
  const BpeMerges merges(own_bytes(), list);
  for (std::uint64_t round = 0; round < 2000; ++round) {
    std::string word;
    for (std::uint64_t i = 0; i <= round % BpeMerges::kShortWord; ++i) {
      word += static_cast<char>('a' + random.bits(1000 + 50 * round + i) % 4);
    }
    word.resize(std::min(word.size(), BpeMerges::kShortWord));
    std::vector<std::int32_t> by_scan;
    std::vector<std::int32_t> by_heap;
    merges.append_short(word, by_scan);
    merges.append_long(word, by_heap);
    ASSERT_EQ(by_scan, by_heap) << word;
  }
}

}  // namespace
}  // namespace quadrille::internal
