// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/output_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/scratch_folder.h"
#include "quadrille/base/file.h"

namespace quadrille::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OutputTail : public ::testing::Test {
 protected:
  void write(const std::string& text) {
    ASSERT_TRUE(write_file_atomically(path_, text).has_value());
  }
  test::ScratchFolder scratch_;
  std::string path_ = scratch_.path() + "/out";
};

TEST_F(OutputTail, KeepsOneRanksLinesAndTakesTheirTagsOff) {
  write("[1,0]<stdout>:zero\n[1,1]<stderr>:one\n[1,10]<stdout>:ten\nmpirun speaks\n");
  EXPECT_THAT(last_lines({.path = path_, .rank = Rank{1}}), ElementsAre("one"));
  EXPECT_THAT(last_lines({.path = path_}), ElementsAre("zero", "one", "ten", "mpirun speaks"));
  EXPECT_THAT(last_lines({.path = path_, .rank = Rank{5}}), IsEmpty());
}

TEST_F(OutputTail, TakesSrunsLabelsForTagsWhereSrunWroteThem) {
  write(" 1: one: two\n12: twelve\n1:tight\nsrun: error: x\n");
  EXPECT_THAT(last_lines({.path = path_, .rank = Rank{1}, .by_srun = true}),
              ElementsAre("one: two"));
  EXPECT_THAT(last_lines({.path = path_, .by_srun = true}),
              ElementsAre("one: two", "twelve", "1:tight", "srun: error: x"));
  EXPECT_THAT(last_lines({.path = path_, .rank = Rank{3}}),
              ElementsAre(" 1: one: two", "12: twelve", "1:tight", "srun: error: x"))
      << "others may begin a line with a number";
}

TEST_F(OutputTail, LinesWithoutTagsAreEveryonesUnlessTagsAreAskedFor) {
  write("mpirun speaks\n");
  EXPECT_THAT(last_lines({.path = path_, .rank = Rank{1}}), ElementsAre("mpirun speaks"));
  EXPECT_THAT(last_lines({.path = path_, .rank = Rank{1}, .only_tagged = true}), IsEmpty());
}

TEST_F(OutputTail, GivesTheLastLinesOfThisLaunchOnly) {
  const std::string before = "old\n";
  write(before + "a\nb\nc\n");
  const auto start = static_cast<std::int64_t>(before.size());
  EXPECT_THAT(last_lines({.path = path_, .from_byte = start}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(last_lines({.path = path_, .from_byte = start, .most = 2}), ElementsAre("b", "c"));
}

TEST_F(OutputTail, ReadsOnlyTheEndOfAHugeFileAndNoHalfLine) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "line " + std::to_string(i) + "\n";
  write(text);
  const auto lines = last_lines({.path = path_, .most = 1'000'000});
  ASSERT_FALSE(lines.empty());
  EXPECT_LT(lines.size(), 100'000U);
  EXPECT_EQ(lines.back(), "line 99999");
  EXPECT_EQ(lines.front().rfind("line ", 0), 0U);
}

TEST_F(OutputTail, IsEmptyWithoutAFile) {
  EXPECT_THAT(last_lines({.path = path_}), IsEmpty());
  EXPECT_EQ(file_bytes(path_), 0);
}

TEST_F(OutputTail, TagsThatAreNoneStayInTheText) {
  write("[1,\n[1,]<stdout>:x\n[1,99999999999999]<stdout>:y\n[1,2]<std");
  EXPECT_EQ(last_lines({.path = path_}).size(), 4U);
}

}  // namespace
}  // namespace quadrille::internal
