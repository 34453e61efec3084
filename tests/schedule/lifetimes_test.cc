// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/schedule/lifetimes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "quadrille/schedule/builders.h"

namespace quadrille {
namespace {

std::vector<Instruction> single_stage(std::int64_t layers, std::int64_t batches = 2) {
  return build_single_stage({1, layers, batches}).value().ranks[0];
}

/// The life in the words of its definition: forward of layer l is time l, its backward 2L-1-l.
std::pair<std::int64_t, std::int64_t> life_of(const BufferRequest& request, std::int64_t layers) {
  const std::int64_t forward = request.layer;
  const std::int64_t backward = 2 * layers - 1 - request.layer;
  switch (request.life) {
    case BufferLife::kSaved:
      return {forward, backward};
    case BufferLife::kOutput:
      return {forward, request.layer + 1 < layers ? backward - 1 : backward};
    case BufferLife::kForward:
      return {forward, forward};
    case BufferLife::kBackward:
      return {backward, backward};
    case BufferLife::kGradient:
      return {backward, request.layer > 0 ? backward + 1 : backward};
  }
  return {};
}

std::int64_t rounded(Bytes bytes) { return (bytes.count() + 63) / 64 * 64; }

/// No layout can be smaller than what lives at one time.
std::int64_t largest_sum(const std::vector<BufferRequest>& requests, std::int64_t layers) {
  std::int64_t most = 0;
  for (std::int64_t time = 0; time < 2 * layers; ++time) {
    std::int64_t sum = 0;
    for (const BufferRequest& request : requests) {
      const auto [first, last] = life_of(request, layers);
      if (first <= time && time <= last) sum += rounded(request.bytes);
    }
    most = std::max(most, sum);
  }
  return most;
}

void expect_disjoint(const ArenaLayout& layout, const std::vector<BufferRequest>& requests,
                     std::int64_t layers) {
  for (std::size_t a = 0; a < requests.size(); ++a) {
    ASSERT_EQ(layout.offsets[a].count() % 64, 0);
    ASSERT_LE(layout.offsets[a] + requests[a].bytes, layout.total);
    for (std::size_t b = 0; b < a; ++b) {
      const auto [first_a, last_a] = life_of(requests[a], layers);
      const auto [first_b, last_b] = life_of(requests[b], layers);
      if (first_a > last_b || first_b > last_a) continue;
      const bool apart = layout.offsets[a] + requests[a].bytes <= layout.offsets[b] ||
                         layout.offsets[b] + requests[b].bytes <= layout.offsets[a];
      ASSERT_TRUE(apart || requests[a].bytes == Bytes(0) || requests[b].bytes == Bytes(0))
          << a << " and " << b;
    }
  }
}

TEST(LayOutArena, BuffersThatLiveTogetherNeverShareBytes) {
  std::mt19937 random(3);
  double worst = 1;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t layers = 1 + static_cast<std::int64_t>(random() % 8);
    std::vector<BufferRequest> requests(1 + random() % 40);
    for (BufferRequest& request : requests) {
      request.layer = static_cast<std::int64_t>(random()) % layers;
      request.bytes = Bytes(static_cast<std::int64_t>(random() % (round % 2 == 0 ? 100 : 100000)));
      request.life = static_cast<BufferLife>(random() % 5);
    }
    const auto program = single_stage(layers);
    const ArenaLayout layout = lay_out_arena(program, requests);
    ASSERT_EQ(layout.offsets.size(), requests.size());
    expect_disjoint(layout, requests, layers);
    const std::int64_t least = largest_sum(requests, layers);
    ASSERT_GE(layout.total.count(), least);
    if (least > 0)
      worst =
          std::max(worst, static_cast<double>(layout.total.count()) / static_cast<double>(least));
  }
  // Finding the least arena is NP-hard; that the greedy one stays near the bound is what we pay
  // for.
  EXPECT_LE(worst, 1.25);
}

/// A transformer's buffers: what is saved dominates, and scratch of one layer fits below that of
/// another.
TEST(LayOutArena, ATransformersArenaIsNearItsLargestSum) {
  for (const std::int64_t layers : {3, 8, 26}) {
    std::vector<BufferRequest> requests;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (const std::int64_t width : {1, 3, 1, 4, 4})
        requests.push_back({layer, 96_KiB * width, BufferLife::kSaved});
      requests.push_back({layer, 96_KiB, BufferLife::kOutput});
      requests.push_back({layer, 96_KiB * 2, BufferLife::kForward});
      for (const std::int64_t width : {4, 4, 3, 1})
        requests.push_back({layer, 96_KiB * width, BufferLife::kBackward});
      requests.push_back({layer, 96_KiB, BufferLife::kGradient});
    }
    const ArenaLayout layout = lay_out_arena(single_stage(layers), requests);
    expect_disjoint(layout, requests, layers);
    const auto least = static_cast<double>(largest_sum(requests, layers));
    EXPECT_LE(static_cast<double>(layout.total.count()), 1.02 * least) << layers;
  }
}

TEST(LayOutArena, ScratchOfDifferentTimesShares) {
  const std::vector<BufferRequest> requests{{0, Bytes(100), BufferLife::kForward},
                                            {1, Bytes(100), BufferLife::kForward},
                                            {1, Bytes(128), BufferLife::kBackward}};
  const ArenaLayout layout = lay_out_arena(single_stage(2), requests);
  EXPECT_EQ(layout.total, Bytes(128));
  EXPECT_EQ(layout.offsets, std::vector<Bytes>(3, Bytes(0)));
}

TEST(LayOutArena, ProgramsOfForwardPassesAloneKeepAnOutputForItsReader) {
  const std::vector<Instruction> forward{{InstructionKind::kLoadBatch, 0, -1},
                                         {InstructionKind::kForward, 0, 0},
                                         {InstructionKind::kForward, 0, 1},
                                         {InstructionKind::kForward, 0, 2}};
  const std::vector<BufferRequest> requests{{0, Bytes(64), BufferLife::kOutput},
                                            {1, Bytes(64), BufferLife::kOutput},
                                            {2, Bytes(64), BufferLife::kOutput},
                                            {1, Bytes(640), BufferLife::kGradient}};
  const ArenaLayout layout = lay_out_arena(forward, requests);
  EXPECT_EQ(layout.total, Bytes(128));
  EXPECT_NE(layout.offsets[0], layout.offsets[1]);
  EXPECT_NE(layout.offsets[1], layout.offsets[2]);
}

TEST(LayOutArena, NothingTakesNoBytes) {
  EXPECT_EQ(lay_out_arena(single_stage(2), {}).total, Bytes(0));
  const std::vector<BufferRequest> empty{{0, Bytes(0), BufferLife::kSaved}};
  EXPECT_EQ(lay_out_arena(single_stage(2), empty).total, Bytes(0));
}

TEST(LayOutArena, RefusesTwoMicroBatchesInFlight) {
  auto program = single_stage(2);
  std::swap(program[4], program[5]);  // the second load before the first's last backward
  const std::vector<BufferRequest> requests{{0, Bytes(64), BufferLife::kSaved}};
  EXPECT_DEATH((void)lay_out_arena(program, requests), "more than one micro-batch in flight");
}

TEST(LayOutArena, RefusesLayersThatNeverRun) {
  const std::vector<BufferRequest> requests{{2, Bytes(64), BufferLife::kSaved}};
  EXPECT_DEATH((void)lay_out_arena(single_stage(2), requests), "layer 2 never runs here");
}

}  // namespace
}  // namespace quadrille
