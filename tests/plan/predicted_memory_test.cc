// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The plan's bytes against those that a real run leases, tag by tag.

#include <gtest/gtest.h>

#include <algorithm>

#include "quadrille/launch/run_directory.h"
#include "quadrille/observe/run_record.h"
#include "quadrille/plan/plan.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

TEST(PredictedMemory, EqualsTheMeasuredPeakOfEachTag) {
  const auto expect_equal = [](int ranks, Precision precision, std::int64_t hidden = 24) {
    const test::TemporaryFolder folder;
    JobSpec job = test::tiny_job(folder.path());
    job.model.hidden = hidden;
    job.model.ffn = 4 * hidden;
    job.training.global_batch = 6;
    job.training.micro_batch = 1;
    job.training.steps = 2;
    job.parallel.data = ranks;
    job.training.precision = precision;
    const auto plan = make_plan(job, {.cores = 2});
    ASSERT_TRUE(plan.has_value()) << plan.error().to_text();
    const RunPaths paths{folder.path() + "/run"};
    const auto outcome = test::run_tiny(job, {.run_directory = paths.directory});
    ASSERT_TRUE(outcome.has_value()) << outcome.error().to_text();
    const auto rows = read_metrics(paths.metrics());
    ASSERT_TRUE(rows.has_value() && !rows->empty());
    for (const auto& [tag, predicted] : plan->rank_bytes) {
      const auto measured = rows->back().peak_by_tag.find(tag);
      ASSERT_NE(measured, rows->back().peak_by_tag.end()) << tag;
      EXPECT_EQ(predicted.count(), measured->second.count()) << tag << ", " << ranks << " ranks";
    }
    EXPECT_LE(rows->back().peak, plan->rank_limit);
  };
  for (const int ranks : {1, 2, 3}) expect_equal(ranks, Precision::kFp32);
  expect_equal(2, Precision::kBf16);
  expect_equal(1, Precision::kFp32, 192);  // a checkpoint of more than its staging
}

}  // namespace
}  // namespace quadrille
