// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/observe/stopwatch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace quadrille {
namespace {

void sleep_ms(int count) { std::this_thread::sleep_for(std::chrono::milliseconds(count)); }

Seconds sum(const Stopwatch& watch) {
  Seconds all;
  for (std::size_t i = 0; i < kPhaseCount; ++i) all += watch.in(static_cast<Phase>(i));
  return all;
}

TEST(Stopwatch, EveryMomentBelongsToOnePhase) {
  Stopwatch watch;
  for (const Phase phase : {Phase::kCompute, Phase::kCommunication, Phase::kBubble, Phase::kData}) {
    const PhaseScope scope(watch, phase);
    sleep_ms(2);
  }
  const Seconds before = watch.total();
  watch.enter(Phase::kOther);
  const Seconds after = watch.total();
  EXPECT_GE(sum(watch).count(), before.count());
  EXPECT_LE(sum(watch).count(), after.count());
  for (const Phase phase : {Phase::kCompute, Phase::kCommunication, Phase::kBubble, Phase::kData}) {
    EXPECT_GE(watch.in(phase).count(), 0.002);
  }
}

TEST(Stopwatch, AnInnerPhaseTakesItsTimeFromTheOuter) {
  Stopwatch watch;
  {
    const PhaseScope outer(watch, Phase::kCompute);
    {
      const PhaseScope inner(watch, Phase::kCommunication);
      sleep_ms(5);
    }
    EXPECT_EQ(watch.enter(Phase::kCompute), Phase::kCompute);
  }
  EXPECT_GE(watch.in(Phase::kCommunication).count(), 0.005);
  EXPECT_LE((watch.in(Phase::kCommunication) + watch.in(Phase::kCompute)).count(),
            watch.total().count());
  EXPECT_EQ(watch.enter(Phase::kOther), Phase::kOther);
}

TEST(Stopwatch, RestartForgets) {
  Stopwatch watch;
  watch.enter(Phase::kData);
  sleep_ms(2);
  watch.restart();
  EXPECT_EQ(sum(watch).count(), 0.0);
  EXPECT_EQ(watch.enter(Phase::kOther), Phase::kOther);
  EXPECT_EQ(watch.in(Phase::kData).count(), 0.0);
}

}  // namespace
}  // namespace quadrille
