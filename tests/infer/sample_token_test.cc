// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "quadrille/infer/generator.h"

namespace quadrille {
namespace {

constexpr int kDraws = 20000;

/// How often each id comes over draws spread evenly over [0, 1): exact up to one draw an id.
std::map<std::int32_t, double> frequencies(const std::vector<float>& logits,
                                           const SamplingOptions& options) {
  std::map<std::int32_t, double> counts;
  for (int i = 0; i < kDraws; ++i) {
    counts[sample_token(logits, options, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  }
  return counts;
}

std::vector<float> random_logits(std::size_t count) {
  std::mt19937_64 random(std::random_device{}());
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

/// exp(logit / temperature) over its sum, for the ids in `kept`.
std::map<std::int32_t, double> softmax(const std::vector<float>& logits, double temperature,
                                       const std::set<std::int32_t>& kept) {
  std::map<std::int32_t, double> part;
  double sum = 0;
  for (const std::int32_t id : kept) {
    part[id] = std::exp(double{logits[static_cast<std::size_t>(id)]} / temperature);
    sum += part[id];
  }
  for (auto& [id, value] : part) value /= sum;
  return part;
}

void expect_frequencies(const std::map<std::int32_t, double>& actual,
                        const std::map<std::int32_t, double>& expected) {
  for (const auto& [id, part] : actual) EXPECT_TRUE(expected.contains(id)) << id;
  for (const auto& [id, part] : expected) {
    const double found = actual.contains(id) ? actual.at(id) : 0;
    EXPECT_NEAR(found, part, 2.0 / kDraws) << id;
  }
}

std::set<std::int32_t> all_of(const std::vector<float>& logits) {
  std::set<std::int32_t> ids;
  for (std::size_t i = 0; i < logits.size(); ++i) ids.insert(static_cast<std::int32_t>(i));
  return ids;
}

/// The `count` ids with the largest logits.
std::set<std::int32_t> top(const std::vector<float>& logits, std::size_t count) {
  std::vector<std::pair<float, std::int32_t>> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    order.emplace_back(-logits[i], static_cast<std::int32_t>(i));
  }
  std::sort(order.begin(), order.end());
  std::set<std::int32_t> ids;
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) ids.insert(order[i].second);
  return ids;
}

TEST(SampleToken, FollowsTheSoftmaxAtAnyTemperature) {
  const std::vector<float> logits = random_logits(13);
  for (const double temperature : {0.3, 1.0, 2.5}) {
    expect_frequencies(frequencies(logits, {.temperature = temperature}),
                       softmax(logits, temperature, all_of(logits)));
  }
}

TEST(SampleToken, TemperatureZeroTakesTheLargestAndTheFirstOfEquals) {
  const std::vector<float> logits = {1, 5, 2, 5, 5};
  for (const double draw : {0.0, 0.5, 0.999}) {
    EXPECT_EQ(sample_token(logits, {.temperature = 0}, draw), 1);
  }
}

TEST(SampleToken, TopKKeepsTheKLargestWithTheirProportions) {
  const std::vector<float> logits = random_logits(13);
  for (const std::int64_t k : {1, 4, 13, 50}) {
    expect_frequencies(frequencies(logits, {.top_k = k}),
                       softmax(logits, 1, top(logits, static_cast<std::size_t>(k))));
  }
}

TEST(SampleToken, TopPKeepsTheFewestThatReachThePart) {
  const std::vector<float> logits = random_logits(13);
  const auto whole = softmax(logits, 1, all_of(logits));
  for (const double p : {0.05, 0.5, 0.9, 0.999}) {
    std::size_t count = 0;
    double sum = 0;
    while (sum < p) {
      ++count;
      sum = 0;
      for (const std::int32_t id : top(logits, count)) sum += whole.at(id);
    }
    expect_frequencies(frequencies(logits, {.top_p = p}), softmax(logits, 1, top(logits, count)));
  }
}

TEST(SampleToken, TopPCountsWithinWhatTopKKept) {
  // Of 8 equal ids top-k keeps the first 4; half of those are the first 2.
  const std::vector<float> logits(8, 1.0F);
  expect_frequencies(frequencies(logits, {.top_k = 4, .top_p = 0.5}), {{0, 0.5}, {1, 0.5}});
}

/// Of a vocabulary so large that ids share buckets of weights, cuts keep exactly the largest.
TEST(SampleToken, CutsOfALargeVocabularyKeepExactlyTheLargest) {
  const std::vector<float> logits = random_logits(3000);
  const auto whole = softmax(logits, 1, all_of(logits));
  for (const std::int64_t k : {1, 17, 400, 2999}) {
    const auto kept = top(logits, static_cast<std::size_t>(k));
    std::set<std::int32_t> drawn;
    for (int i = 0; i < 2000; ++i) {
      drawn.insert(sample_token(logits, {.top_k = k}, (i + 0.5) / 2000));
    }
    for (const std::int32_t id : drawn) EXPECT_TRUE(kept.contains(id)) << k << ", " << id;
    EXPECT_TRUE(k > 100 || drawn == kept) << k;
  }
  for (const double p : {0.1, 0.5, 0.9}) {
    double outside = 0;  // of all that is more likely than the least likely that is drawn
    std::set<std::int32_t> drawn;
    for (int i = 0; i < 5000; ++i) {
      drawn.insert(sample_token(logits, {.top_p = p}, (i + 0.5) / 5000));
    }
    double least = 1;
    for (const std::int32_t id : drawn) least = std::min(least, whole.at(id));
    for (const auto& [id, part] : whole) outside += part > least ? part : 0;
    EXPECT_LT(outside, p);
    EXPECT_GT(outside + 10 * least, p * 0.9);
  }
}

TEST(SampleToken, ExtremeLogitsStayWithinTheVocabulary) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sample_token({nan, 1, nan}, {}, 0.9), 1);
  EXPECT_EQ(sample_token({-kInfinity, -kInfinity, 0}, {}, 0.0), 2);
  EXPECT_EQ(sample_token({0, kInfinity, 0}, {}, 0.99), 1);
  EXPECT_EQ(sample_token({nan, nan}, {.top_k = 1}, 0.5), 0);
  EXPECT_EQ(sample_token({3e38F, -3e38F}, {.temperature = 1e-9}, 0.999999), 0);
  EXPECT_EQ(sample_token({7}, {.top_p = 1e-9}, 0.999999), 0);
}

}  // namespace
}  // namespace quadrille
