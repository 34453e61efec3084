// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "data/pcre2_splitter.h"
#include "data/utf8.h"

namespace quadrille::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> words(std::string_view pattern, std::string_view text, bool last = true) {
  const Splitter splitter = Splitter::create(pattern).value();
  WordCursor cursor(splitter, text, last);
  std::vector<std::string> found;
  std::size_t begin = 0;
  while (true) {
    const auto ends = cursor.next().value();
    if (ends.empty()) return found;
    for (const std::size_t end : ends) {
      found.emplace_back(text.substr(begin, end - begin));
      begin = end;
    }
  }
}

TEST(Splitter, LeavesASpaceToTheWordThatFollows) {
  EXPECT_THAT(words(kGpt2Pattern, "it's  12 o"), ElementsAre("it", "'s", " ", " 12", " o"));
  EXPECT_THAT(words(kLlama3Pattern, "1234 x\n\n y"), ElementsAre("123", "4", " x", "\n\n", " y"));
}

TEST(Splitter, MakesWordsOfWhatThePatternDoesNotMatch) {
  EXPECT_THAT(words("[a-z]+", "ab--cd!"), ElementsAre("ab", "--", "cd", "!"));
}

TEST(Splitter, TakesUnicodesSpacesForSpaces) {
  EXPECT_THAT(words(R"(\s+|\S+)", "a\u3000b\u0085"), ElementsAre("a", "\u3000", "b", "\u0085"));
  // U+180E was a space until Unicode 6.3.
  EXPECT_THAT(words(R"(\s+|\S+)", "a\u180eb"), ElementsAre("a\u180eb"));
  EXPECT_THAT(words(R"([^\s]+|[]\s]+)", "a]b c"), ElementsAre("a]b", " ", "c"));
}

TEST(Splitter, MakesAWordOfEachByteThatIsNoText) {
  EXPECT_THAT(words(kGpt2Pattern, "ab\xFF\xC3(c"), ElementsAre("ab", "\xFF", "\xC3", "(", "c"));
}

TEST(Splitter, KeepsBackWhatMoreTextCouldChange) {
  EXPECT_THAT(words(kGpt2Pattern, "the cat", false), ElementsAre("the"));
  EXPECT_THAT(words(kGpt2Pattern, "a'r", false), ElementsAre("a"));
  EXPECT_THAT(words(kGpt2Pattern, "a  ", false), ElementsAre("a"));
  EXPECT_THAT(words(kLlama3Pattern, "a\n  ", false), ElementsAre("a"));
  // Two of three bytes of a character.
  EXPECT_THAT(words(kGpt2Pattern, "1a\xE6\x9D", false), ElementsAre("1"));
  EXPECT_THAT(words(kGpt2Pattern, "", false), IsEmpty());
}

TEST(Splitter, RefusesPatternsThatItCannotUse) {
  EXPECT_THAT(Splitter::create("(").error().message, HasSubstr("the split pattern"));
  EXPECT_THAT(Splitter::create("(?<=a)b").error().message, HasSubstr("looks behind"));
}

TEST(Splitter, ReportsAPatternThatGivesUp) {
  const Splitter splitter = Splitter::create("(x+x+)+[yz]").value();
  const std::string text(60, 'x');
  WordCursor cursor(splitter, text, true);
  const auto ends = cursor.next();
  ASSERT_FALSE(ends.has_value());
  EXPECT_THAT(ends.error().message, HasSubstr("match limit"));
}

TEST(Splitter, WalksOverAVeryLongWord) {
  const std::string text(3'000'000, ' ');
  EXPECT_THAT(words(kLlama3Pattern, text), ElementsAre(text));
  EXPECT_THAT(words(kGpt2Pattern, std::string(1'000'000, 'x')).size(), 1U);
}

TEST(Utf8, EndsTheValidFrontBeforeTheFirstBadByte) {
  EXPECT_EQ(valid_utf8_prefix("plain ascii and more"), 20U);
  EXPECT_EQ(valid_utf8_prefix("\u00e9\u6771\U0001F680"), 9U);
  EXPECT_EQ(valid_utf8_prefix("ok\xC0\x80"), 2U);           // overlong
  EXPECT_EQ(valid_utf8_prefix("\xE0\x80\x80"), 0U);         // overlong
  EXPECT_EQ(valid_utf8_prefix("\xED\xA0\x80"), 0U);         // a surrogate
  EXPECT_EQ(valid_utf8_prefix("\xF4\x90\x80\x80"), 0U);     // beyond U+10FFFF
  EXPECT_EQ(valid_utf8_prefix("0123456789\xE6\x9D"), 10U);  // cut off
}

TEST(Utf8, KnowsWhichEndsMayBecomeACharacter) {
  EXPECT_TRUE(may_become_character("\xE6"));
  EXPECT_TRUE(may_become_character("\xF0\x9F\x9A"));
  EXPECT_FALSE(may_become_character(""));
  EXPECT_FALSE(may_become_character("a"));
  EXPECT_FALSE(may_become_character("\xFF"));
  EXPECT_FALSE(may_become_character("\xE0\x80"));
  EXPECT_FALSE(may_become_character("\xE6\x9D\xB1"));
}

}  // namespace
}  // namespace quadrille::internal
