// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/collective_cost.h"

#include <gtest/gtest.h>

namespace quadrille {
namespace {

using internal::Collective;
using internal::collective_seconds;

// Nodes of 4 devices; 100 GB/s and 1 us inside, 10 GB/s and 10 us outside, without losses.
ClusterSpec plain_cluster(std::int64_t nodes) {
  ClusterSpec cluster;
  cluster.nodes = {{.device = "x", .count = nodes, .devices_per_node = 4}};
  cluster.links = {
      {.name = "in", .spans = 4, .bandwidth = 100e9, .latency = Seconds(1e-6), .efficiency = 1},
      {.name = "out", .spans = 0, .bandwidth = 10e9, .latency = Seconds(10e-6), .efficiency = 1}};
  return cluster;
}

constexpr double kBytes = 8e9;  // Large: latencies vanish beside it.

TEST(CollectiveCost, MovesWhatARingMoves) {
  const ClusterSpec cluster = plain_cluster(1);
  const double once = 3.0 / 4 * kBytes / 100e9;
  EXPECT_NEAR(collective_seconds(Collective::kAllReduce, kBytes, {4, 1}, cluster), 2 * once, 1e-4);
  EXPECT_NEAR(collective_seconds(Collective::kGather, kBytes, {4, 1}, cluster), once, 1e-4);
  EXPECT_NEAR(collective_seconds(Collective::kScatter, kBytes, {4, 1}, cluster), once, 1e-4);
}

TEST(CollectiveCost, IsNothingForOneRankOrNoBytes) {
  const ClusterSpec cluster = plain_cluster(2);
  EXPECT_EQ(collective_seconds(Collective::kAllReduce, kBytes, {1, 1}, cluster), 0);
  EXPECT_EQ(collective_seconds(Collective::kAllReduce, 0, {8, 1}, cluster), 0);
}

// All 4 members of a node bring their way out to one group; a group of one member a node has its
// own way alone, since 3 other groups use the others.
TEST(CollectiveCost, SharesTheWaysOutOfANodeAmongItsGroups) {
  const ClusterSpec cluster = plain_cluster(4);
  const double whole = collective_seconds(Collective::kGather, kBytes, {16, 1}, cluster);
  EXPECT_NEAR(whole, 15.0 / 16 * kBytes / (4 * 10e9), 1e-3);
  const double rail = collective_seconds(Collective::kGather, kBytes, {4, 4}, cluster);
  EXPECT_NEAR(rail, 3.0 / 4 * kBytes / 10e9, 1e-3);
  const double half = collective_seconds(Collective::kGather, kBytes, {8, 2}, cluster);
  EXPECT_NEAR(half, 7.0 / 8 * kBytes / (2 * 10e9), 1e-3);
}

TEST(CollectiveCost, CountsEachStepOfARingAndOnlyTheDepthOfATree) {
  const ClusterSpec cluster = plain_cluster(64);
  const double tiny = 1;
  const double ring = collective_seconds(Collective::kRingGather, tiny, {256, 1}, cluster);
  EXPECT_NEAR(ring, 63 * 10e-6 + 64 * 3 * 1e-6, 1e-6);
  const double tree = collective_seconds(Collective::kGather, tiny, {256, 1}, cluster);
  EXPECT_NEAR(tree, 2 * (6 * 10e-6 + 2 * 1e-6), 1e-6);
}

TEST(CollectiveCost, GainsFromSwitchesThatSumOnlyWhereAllSitBelowThem) {
  ClusterSpec cluster = plain_cluster(2);
  const double before = collective_seconds(Collective::kAllReduce, kBytes, {4, 1}, cluster);
  const double across = collective_seconds(Collective::kAllReduce, kBytes, {8, 1}, cluster);
  cluster.links[0].switch_sum = 2;
  EXPECT_NEAR(collective_seconds(Collective::kAllReduce, kBytes, {4, 1}, cluster), before / 2,
              1e-4);
  EXPECT_DOUBLE_EQ(collective_seconds(Collective::kAllReduce, kBytes, {8, 1}, cluster), across);
}

TEST(CollectiveCost, LosesBandwidthWithEachDoublingOfATaperedFabric) {
  ClusterSpec cluster = plain_cluster(16);
  const double full = collective_seconds(Collective::kGather, kBytes, {16, 4}, cluster);
  cluster.links[1].taper = 0.1;
  EXPECT_NEAR(collective_seconds(Collective::kGather, kBytes, {16, 4}, cluster) / full, 1.4, 1e-3);
}

TEST(CollectiveCost, SendsAMessageOverTheFirstLevelThatJoinsBothEnds) {
  const ClusterSpec cluster = plain_cluster(4);
  EXPECT_NEAR(internal::message_seconds(kBytes, 2, cluster), kBytes / 100e9, 1e-4);
  EXPECT_NEAR(internal::message_seconds(kBytes, 4, cluster), kBytes / 10e9, 1e-4);
  EXPECT_NEAR(internal::message_seconds(0, 4, cluster), 10e-6, 1e-12);
}

}  // namespace
}  // namespace quadrille
