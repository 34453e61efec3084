// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/tokenizer.h"

#include <gtest/gtest.h>

namespace quadrille {
namespace {

TEST(ByteTokenizer, GivesEveryByteBack) {
  const auto tokenizer = make_tokenizer("bytes").value();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const auto ids = tokenizer->encode(all).value();
  ASSERT_EQ(ids.size(), 256u);
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(ids[i], static_cast<std::int32_t>(i));
  EXPECT_EQ(tokenizer->decode(ids), all);
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_FALSE(tokenizer->end_of_text().has_value());
}

TEST(ByteTokenizer, DecodesIdsOutsideItsVocabularyToNothing) {
  const auto tokenizer = make_tokenizer("bytes").value();
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{'a', 256, -1, 50'000, 'b'}), "ab");
}

}  // namespace
}  // namespace quadrille
