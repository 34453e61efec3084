// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/sample_text.h"
#include "quadrille/data/corpus.h"

namespace quadrille {
namespace {

using data_test::corpus_job;

JobSpec order_job(SampleOrder order, std::int64_t batch, std::uint64_t seed = 3) {
  JobSpec job = corpus_job({}, 4, batch);
  job.data.order = order;
  job.training.seed = seed;
  return job;
}

/// The samples of positions [first, first + count) of the endless order.
std::vector<std::int64_t> walk(const SampleOrderFunction& order, std::int64_t batch,
                               std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> samples;
  for (std::int64_t n = first; n < first + count; ++n) {
    samples.push_back(order.sample(n / batch, n % batch));
  }
  return samples;
}

TEST(SampleOrder, EveryShuffledEpochIsAPermutationOfItsOwn) {
  for (const std::int64_t samples : {1, 2, 5, 17, 100}) {
    for (const std::int64_t batch : {1, 4, 7}) {
      const SampleOrderFunction order(order_job(SampleOrder::kShuffled, batch), samples);
      std::set<std::vector<std::int64_t>> epochs;
      for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
        // Positions, not steps: an epoch that ends inside a batch goes on in the next epoch there.
        auto seen = walk(order, batch, epoch * samples, samples);
        epochs.insert(seen);
        std::sort(seen.begin(), seen.end());
        std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(seen, all) << samples << " samples, batch " << batch << ", epoch " << epoch;
      }
      if (samples < 17) continue;  // few samples have few orders
      EXPECT_EQ(epochs.size(), 4u) << "two epochs have the same order";
    }
  }
}

TEST(SampleOrder, DoesNotDependOnHowABatchIsCut) {
  // The same positions under a batch of 12 and of 1: only step * batch + slot counts.
  const SampleOrderFunction twelve(order_job(SampleOrder::kShuffled, 12), 50);
  const SampleOrderFunction one(order_job(SampleOrder::kShuffled, 1), 50);
  EXPECT_EQ(walk(twelve, 12, 0, 150), walk(one, 1, 0, 150));
}

TEST(SampleOrder, AnotherSeedIsAnotherOrder) {
  const SampleOrderFunction three(order_job(SampleOrder::kShuffled, 4, 3), 100);
  const SampleOrderFunction four(order_job(SampleOrder::kShuffled, 4, 4), 100);
  EXPECT_NE(walk(three, 4, 0, 100), walk(four, 4, 0, 100));
}

TEST(SampleOrder, SequentialWrapsAtTheEnd) {
  const SampleOrderFunction order(order_job(SampleOrder::kSequential, 4), 10);
  const std::vector<std::int64_t> expected = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1};
  EXPECT_EQ(walk(order, 4, 0, 12), expected);
}

TEST(SampleOrder, FarStepsOfLongRunsStayInRange) {
  constexpr std::int64_t kSamples = 1'000'003;
  const SampleOrderFunction order(order_job(SampleOrder::kShuffled, 512), kSamples);
  for (const std::int64_t step : {std::int64_t{1} << 31, std::int64_t{1} << 40}) {
    const std::int64_t sample = order.sample(step, 511);
    EXPECT_GE(sample, 0);
    EXPECT_LT(sample, kSamples);
  }
}

}  // namespace
}  // namespace quadrille
