// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_book.h"

#include <gtest/gtest.h>

namespace quadrille::internal {
namespace {

ControlEvent event(ControlEvent::Kind kind, int rank, Error error = {}) {
  ControlEvent made;
  made.kind = kind;
  made.rank = Rank{rank};
  made.pid = 100 + rank;
  made.host = "here";
  made.error = std::move(error);
  return made;
}

TEST(RankBook, KeepsTheFirstFailureNotTheLoudest) {
  RankBook book(3);
  EXPECT_TRUE(book.add(event(ControlEvent::Kind::kLost, 2)));
  EXPECT_FALSE(book.add(event(ControlEvent::Kind::kFailure, 0, {Code::kUnavailable, "peer", {}})));
  EXPECT_EQ(book.failure()->rank, Rank{2});
  EXPECT_TRUE(book.failure()->lost);
}

TEST(RankBook, PrefersTheCauseToARankThatOnlyFollows) {
  RankBook book(3);
  EXPECT_TRUE(book.add(event(ControlEvent::Kind::kFailure, 0, {Code::kAborted, "peer", {}})));
  book.add(event(ControlEvent::Kind::kFailure, 1, {Code::kCorrupt, "bad shard", {}}));
  book.add(event(ControlEvent::Kind::kFailure, 2, {Code::kAborted, "peer", {}}));
  EXPECT_EQ(book.failure()->rank, Rank{1});
  EXPECT_EQ(book.failure()->error.message, "bad shard");
}

TEST(RankBook, ReadsTheCulpritFromAnAgreedError) {
  const auto culprit_of = [](const char* message) {
    RankBook book(4);
    book.add(event(ControlEvent::Kind::kFailure, 0, {Code::kTimeout, message, {}}));
    return book.failure()->rank->value;
  };
  EXPECT_EQ(culprit_of("rank 3: no loss"), 3);
  EXPECT_EQ(culprit_of("rank 2 (pid 4) has returned"), 2);
  EXPECT_EQ(culprit_of("rank 9: is not of this run"), 0);
  EXPECT_EQ(culprit_of("rank x: nonsense"), 0);
  EXPECT_EQ(culprit_of("ranks differ"), 0);
  EXPECT_EQ(culprit_of("rank 1"), 0);
  EXPECT_EQ(culprit_of(""), 0);
}

TEST(RankBook, CountsGreetingsAndEnds) {
  RankBook book(2);
  book.add(event(ControlEvent::Kind::kGreeting, 1));
  EXPECT_TRUE(book.any_greeted());
  EXPECT_FALSE(book.all_greeted());
  EXPECT_EQ(book.absent(), "rank 0");
  book.add(event(ControlEvent::Kind::kGreeting, 0));
  book.add(event(ControlEvent::Kind::kFinished, 0));
  EXPECT_FALSE(book.all_ended());
  ControlEvent stopped = event(ControlEvent::Kind::kFinished, 1);
  stopped.end = RankEnd::kStopped;
  book.add(stopped);
  EXPECT_TRUE(book.all_ended());
  EXPECT_TRUE(book.any_stopped());
}

TEST(RankBook, IgnoresARankThatTheRunDoesNotHave) {
  RankBook book(2);
  EXPECT_FALSE(book.add(event(ControlEvent::Kind::kLost, 2)));
  EXPECT_FALSE(book.failure().has_value());
}

}  // namespace
}  // namespace quadrille::internal
