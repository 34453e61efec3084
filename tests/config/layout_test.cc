// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/layout.h"

#include <gmock/gmock.h>

namespace quadrille {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  const auto layout = parse_layout(text);
  EXPECT_FALSE(layout) << text;
  return layout ? "" : layout.error().message;
}

TEST(Layout, WhatIsNotNamedHasItsDefault) {
  const auto layout = parse_layout("tensor=3");
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->parallel.data, 1);
  EXPECT_EQ(layout->parallel.tensor, 3);
  EXPECT_FALSE(layout->parallel.sequence);
  EXPECT_EQ(layout->parallel.sharding, 0);
  EXPECT_EQ(layout->micro_batch, 0);
}

TEST(Layout, ReadsBackWhatItWrites) {
  for (const char* text : {"data=1", "data=2", "data=2,tensor=3", "data=1,tensor=2,sequence=1",
                           "data=4,sharding=2", "data=2,tensor=2,sequence=1,sharding=3"}) {
    const auto layout = parse_layout(text);
    ASSERT_TRUE(layout) << text;
    EXPECT_EQ(layout_text(layout->parallel), text);
  }
  EXPECT_EQ(parse_layout("data=2,micro_batch=4,pipeline=1")->micro_batch, 4);
}

TEST(Layout, NamesTheWordThatIsWrong) {
  EXPECT_THAT(refusal("data=2,tensr=2"), HasSubstr("\"tensr=2\" is no part of one"));
  EXPECT_THAT(refusal("data=2,tensr=2"), HasSubstr("data, tensor, pipeline"));
  EXPECT_THAT(refusal("data"), HasSubstr("NAME=NUMBER"));
  EXPECT_THAT(refusal(""), HasSubstr("\"\" is no part of one"));
  EXPECT_THAT(refusal("data=0"), HasSubstr("data from 1 to"));
  EXPECT_THAT(refusal("data=2x"), HasSubstr("\"data=2x\" is out of range"));
  EXPECT_THAT(refusal("pipeline=2"), HasSubstr("pipeline from 1 to 1"));
  EXPECT_THAT(refusal("sequence=2"), HasSubstr("sequence from 0 to 1"));
  EXPECT_THAT(refusal("data=2,data=2"), HasSubstr("stands twice"));
}

}  // namespace
}  // namespace quadrille
