// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/word_cache.h"

#include <gmock/gmock.h>

#include <string>

namespace quadrille::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(WordCache, GivesAWordItsOwnIdsHoweverManyItHolds) {
  // More words than it keeps: what it still has must be right, and it keeps taking words in.
  WordCache cache;
  std::size_t found = 0;
  for (std::int32_t i = 0; i < 100'000; ++i) {
    const std::string word = "w" + std::to_string(i);
    ASSERT_THAT(cache.find(word), IsEmpty());
    cache.insert(word, std::vector<std::int32_t>{i, -i});
    ASSERT_THAT(cache.find(word), ElementsAre(i, -i));
    const std::int32_t earlier = i / 2;
    const auto ids = cache.find("w" + std::to_string(earlier));
    if (ids.empty()) continue;
    ASSERT_THAT(ids, ElementsAre(earlier, -earlier));
    ++found;
  }
  EXPECT_GT(found, 50'000U);
}

TEST(WordCache, TellsWordsApartThatDifferInLengthOnly) {
  WordCache cache;
  cache.insert(std::string(1, '\0'), std::vector<std::int32_t>{1});
  EXPECT_THAT(cache.find(std::string(2, '\0')), IsEmpty());
  EXPECT_THAT(cache.find(""), IsEmpty());
}

TEST(WordCachePool, GivesOutWhatCameBack) {
  WordCachePool pool;
  auto first = pool.borrow();
  first->insert("word", std::vector<std::int32_t>{7});
  pool.give_back(std::move(first));
  const auto again = pool.borrow();
  EXPECT_THAT(again->find("word"), ElementsAre(7));
  EXPECT_THAT(pool.borrow()->find("word"), IsEmpty());
}

}  // namespace
}  // namespace quadrille::internal
