// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/report/progress.h"

#include <gmock/gmock.h>

#include <cmath>

#include "quadrille/base/text.h"

namespace quadrille {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<StepRecord> falling_loss(std::int64_t steps) {
  std::vector<StepRecord> records;
  for (std::int64_t step = 1; step <= steps; ++step) {
    StepRecord record;
    record.step = step;
    record.loss = 5.0 / static_cast<double>(step);
    record.tokens = 1000;
    record.seconds = Seconds(0.5);
    record.compute = Seconds(0.4);
    record.exposed_communication = Seconds(0.05);
    record.other = Seconds(0.05);
    record.peak_by_tag["activation"] = 3_MiB;
    records.push_back(record);
  }
  return records;
}

TEST(ProgressLine, EstimatesTheTimeLeftFromTheMedianStep) {
  std::vector<StepRecord> records = falling_loss(5);
  records[2].seconds = Seconds(100);  // one hiccup must not move the estimate
  const std::string line = progress_line(records, {.steps = 25, .columns = 200});
  EXPECT_THAT(line, HasSubstr("step 5/25"));
  EXPECT_THAT(line, HasSubstr("2,000 tokens/s"));      // 1000 tokens in 0.5 s
  EXPECT_THAT(line, HasSubstr(to_text(Seconds(10))));  // 20 steps of 0.5 s
}

TEST(ProgressLine, SaysThatAnUnknownMfuIsUnknown) {
  std::vector<StepRecord> records = falling_loss(1);
  EXPECT_THAT(progress_line(records, {.steps = 1}), HasSubstr("MFU n/a"));
  records[0].mfu = 0.314;
  EXPECT_THAT(progress_line(records, {.steps = 1}), HasSubstr("MFU 31.4%"));
}

TEST(ProgressLine, IsCutAtTheTerminalsWidth) {
  EXPECT_EQ(progress_line(falling_loss(1), {.steps = 10, .columns = 20}).size(), 20U);
}

TEST(LossCurve, FallsFromTheUpperLeftToTheLowerRight) {
  const std::string curve = loss_curve(falling_loss(30), {.columns = 30, .rows = 6});
  const std::vector<std::string> lines = split(curve, '\n');
  ASSERT_GE(lines.size(), 8U);
  EXPECT_EQ(lines[0].find('.', lines[0].find('|')), lines[0].find('|') + 1);
  EXPECT_EQ(lines[5].rfind('.'), lines[5].find('|') + 30);
  EXPECT_THAT(lines[0], HasSubstr("5.0000"));
  EXPECT_THAT(curve, HasSubstr("step 30"));
}

TEST(LossCurve, LeavesOutWhatIsNotFinite) {
  std::vector<StepRecord> records = falling_loss(4);
  records[3].loss = std::nan("");
  EXPECT_THAT(loss_curve(records, {}), Not(HasSubstr("nan")));
  EXPECT_EQ(loss_curve(falling_loss(1), {}), "");
}

TEST(Summary, PutsPlannedBesideMeasuredAndComparesWithTheUnigramEntropy) {
  std::vector<StepRecord> records = falling_loss(10);
  records.back().validation_loss = 1.5;
  SummaryFacts facts;
  facts.run_directory = "runs/x";
  facts.wall = Seconds(7);
  facts.unigram_entropy = 3.0;
  facts.planned_bytes["activation"] = 4_MiB;
  const std::string text = summary(records, facts);
  EXPECT_THAT(text, HasSubstr("validation loss 1.5000 at step 10, 0.50 of"));
  EXPECT_THAT(text, HasSubstr(to_text(3_MiB)));
  EXPECT_THAT(text, HasSubstr(to_text(4_MiB)));
  EXPECT_THAT(text, HasSubstr("80.0%"));  // compute: 0.4 of 0.5 s
  EXPECT_THAT(text, HasSubstr("runs/x"));
}

TEST(Summary, OfNothingSaysSo) { EXPECT_EQ(summary({}, {}), "No step was trained.\n"); }

}  // namespace
}  // namespace quadrille
