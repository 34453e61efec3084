// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/layout_search.h"

#include <gmock/gmock.h>

#include "plan/training_runs.h"

namespace quadrille {
namespace {

using testing_runs::cluster_of;
using testing_runs::gpt3;

SearchRequest request_of(std::int64_t layers, std::int64_t batch) {
  SearchRequest request{.model = gpt3(), .global_batch = batch};
  request.model.layers = layers;
  return request;
}

std::vector<double> seconds_of(const SearchResult& result) {
  std::vector<double> seconds;
  for (const RatedLayout& layout : result.best) seconds.push_back(layout.step.total().count());
  return seconds;
}

// Small spaces, once with the bound and once pricing everything.
TEST(LayoutSearch, LosesNothingToItsBound) {
  for (const std::int64_t devices : {8, 24, 64}) {
    for (const std::int64_t layers : {6, 16, 96}) {
      const ClusterSpec cluster = cluster_of("H100-80GB", devices);
      SearchRequest request = request_of(layers, 48);
      request.limits.schedules.push_back(PipelineKind::kZeroBubbleOne);
      request.limits.memory_share = 3;  // More combinations fit.
      const auto bounded = search_layouts(request, cluster);
      request.bounded = false;
      const auto brute = search_layouts(request, cluster);
      ASSERT_TRUE(bounded.has_value() && brute.has_value());
      EXPECT_EQ(bounded->considered, brute->considered);
      EXPECT_LE(bounded->priced, brute->priced);
      EXPECT_EQ(seconds_of(*bounded), seconds_of(*brute)) << devices << " " << layers;
    }
  }
}

TEST(LayoutSearch, ReturnsLayoutsOfAllDevicesThatFitFastestFirst) {
  const ClusterSpec cluster = cluster_of("A100-80GB", 64);
  const auto result = search_layouts(request_of(48, 64), cluster);
  ASSERT_TRUE(result.has_value()) << result.error().to_text();
  ASSERT_FALSE(result->best.empty());
  double before = 0;
  for (const RatedLayout& layout : result->best) {
    EXPECT_EQ(layout.layout.ranks(), 64);
    EXPECT_LE(layout.memory.total(), 0.95 * 80 * 1024.0 * 1024 * 1024);
    EXPECT_GE(layout.step.total().count(), before);
    before = layout.step.total().count();
  }
}

TEST(LayoutSearch, AccountsForEveryCombination) {
  const auto result = search_layouts(request_of(48, 64), cluster_of("A100-80GB", 64));
  ASSERT_TRUE(result.has_value());
  std::int64_t rejected = 0;
  for (const auto& [why, count] : result->rejected) rejected += count;
  EXPECT_EQ(rejected + static_cast<std::int64_t>(result->best.size()), result->considered);
}

TEST(LayoutSearch, KeepsTheDegreesThatTheUserFixes) {
  SearchRequest request = request_of(48, 64);
  request.limits.tensor = 4;
  request.limits.pipeline = 2;
  request.limits.micro_batch = 2;
  const auto result = search_layouts(request, cluster_of("A100-80GB", 64));
  ASSERT_TRUE(result.has_value());
  ASSERT_FALSE(result->best.empty());
  EXPECT_EQ(result->best.front().layout.tensor, 4);
  EXPECT_EQ(result->best.front().layout.pipeline, 2);
  EXPECT_EQ(result->best.front().layout.micro_batch, 2);
}

TEST(LayoutSearch, SaysByHowMuchTheClosestLayoutMisses) {
  const auto result = search_layouts(request_of(96, 64), cluster_of("A100-80GB", 8));
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->best.empty());
  ASSERT_EQ(result->closest.size(), 1U);
  const double capacity = 0.95 * 80 * 1024.0 * 1024 * 1024;
  EXPECT_DOUBLE_EQ(result->missing_bytes, result->closest.front().memory.total() - capacity);
  // 175 billion parameters of 16 bytes over 8 devices, and more for activations.
  EXPECT_GT(result->missing_bytes, 175e9 * 16 / 8 - capacity);
}

TEST(LayoutSearch, RefusesWhatNothingDivides) {
  SearchRequest request = request_of(48, 64);
  request.limits.tensor = 7;
  EXPECT_FALSE(search_layouts(request, cluster_of("A100-80GB", 64)).has_value());
  request = request_of(0, 64);
  const auto result = search_layouts(request, cluster_of("A100-80GB", 64));
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().to_text(), ::testing::HasSubstr("model.layers"));
}

}  // namespace
}  // namespace quadrille
