// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/train/verify_layouts.h"

#include <gmock/gmock.h>

#include "support/tiny_run.h"

namespace quadrille {
namespace {

using testing::HasSubstr;

class VerifyLayouts : public testing::Test {
 protected:
  Result<VerifyOutcome> verify(const char* a, const char* b) {
    return verify_layouts(
        job_,
        {.a = *parse_layout(a), .b = *parse_layout(b), .steps = 2, .folder = scratch_.path()});
  }

  test::TemporaryFolder scratch_;
  JobSpec job_ = test::tiny_job(scratch_.path());
};

TEST_F(VerifyLayouts, FindsLayoutsThatComputeTheSameEqual) {
  const auto outcome = verify("data=1", "data=2,tensor=3,sequence=1");
  ASSERT_TRUE(outcome) << outcome.error().to_text();
  EXPECT_EQ(outcome->difference, std::nullopt);
  EXPECT_THAT(outcome->model, HasSubstr("3 heads"));
}

TEST_F(VerifyLayouts, MakesAModelSmallAndKeepsItsHeadsAndWords) {
  job_.model = {
      .layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .vocab = 50257, .context = 1024};
  job_.training.sequence = 1024;
  const JobSpec small =
      reduced_job(job_, *parse_layout("data=2,micro_batch=3"), *parse_layout("data=4,tensor=3"));
  EXPECT_EQ(small.model.layers, 2);
  EXPECT_EQ(small.model.heads, 12);
  EXPECT_EQ(small.model.hidden, 12 * 8);
  EXPECT_EQ(small.model.ffn, 4 * 12 * 8) << "four times the width, as before";
  EXPECT_EQ(small.model.vocab, 50257);
  EXPECT_EQ(small.training.global_batch, 12) << "both 2 x 3 and 4 divide it";
}

TEST_F(VerifyLayouts, ALayoutThatDoesNotFitTheJobIsTheRequestsFault) {
  const auto outcome = verify("data=1", "tensor=4");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kInvalid);
  EXPECT_THAT(outcome.error().to_text(), HasSubstr("parallel.tensor"));
}

}  // namespace
}  // namespace quadrille
