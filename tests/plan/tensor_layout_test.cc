// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "plan/sample_job.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/plan/activation_arena.h"
#include "quadrille/plan/plan.h"

namespace quadrille {
namespace {

using test::machine_of;
using test::sample_job;
using ::testing::HasSubstr;

JobSpec shared_job(std::int64_t data, std::int64_t tensor, bool sequence) {
  JobSpec job = sample_job();
  job.parallel = {.data = data, .tensor = tensor, .sequence = sequence};
  return job;
}

TEST(TensorLayout, RanksOfATensorGroupWorkOnTheSameSequences) {
  const auto plan = make_plan(shared_job(3, 2, false), machine_of(2));
  ASSERT_TRUE(plan) << plan.error().to_text();
  EXPECT_EQ(plan->ranks(), 6);
  EXPECT_EQ(plan->program.ranks.size(), 6U);
  EXPECT_EQ(plan->micro_batch * plan->micro_batches, 12 / 3);
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(plan->first_slot(Rank{rank}), rank / 2 * 4);
    EXPECT_EQ(plan->tensor_share(Rank{rank}).index, rank % 2) << "tensor is the innermost axis";
  }
  EXPECT_THAT(explain(*plan), HasSubstr("data=3,tensor=2: 6 ranks"));
  EXPECT_THAT(explain(*plan), HasSubstr("2 ranks share each layer"));
  EXPECT_THAT(explain(*plan), HasSubstr("heads 1 to 1, words 128 to 255, sequences 0 to 3"));
}

TEST(TensorLayout, MemoryIsThatOfTheLargestRank) {
  const JobSpec job = shared_job(1, 2, true);
  const auto plan = make_plan(job, machine_of(2));
  ASSERT_TRUE(plan) << plan.error().to_text();
  std::int64_t parameters = 0;
  for (const ParameterShape& shape : parameter_shapes(job.model, {.degree = 2})) {
    parameters += (shape.piece({.degree = 2, .index = 0}).elements() * 4 + 63) / 64 * 64;
  }
  EXPECT_EQ(plan->rank_bytes.at("parameter").count(), parameters);
  const auto arena = activation_arena(job.model, {plan->micro_batch, job.training.sequence},
                                      plan->program.ranks[0], plan->tensor_share(Rank{0}));
  EXPECT_EQ(plan->activation_arena, arena.layout.total);
  const auto whole = make_plan(shared_job(1, 1, false), machine_of(2));
  ASSERT_TRUE(whole);
  EXPECT_LT(plan->rank_bytes.at("optimizer"), whole->rank_bytes.at("optimizer"));
}

TEST(TensorLayout, AutoCountsTheTensorAxisAmongTheCores) {
  const auto plan = make_plan(shared_job(0, 2, false), machine_of(8));
  ASSERT_TRUE(plan) << plan.error().to_text();
  EXPECT_EQ(plan->mesh.data, 4);
  EXPECT_EQ(plan->mesh.tensor, 2);
}

TEST(TensorLayout, RefusesMoreRanksThanHeads) {
  const auto plan = make_plan(shared_job(1, 3, false), machine_of(8));
  ASSERT_FALSE(plan);
  ASSERT_EQ(plan.error().diagnostics.size(), 1U);
  EXPECT_EQ(plan.error().diagnostics[0].path, "parallel.tensor");
  EXPECT_THAT(plan.error().diagnostics[0].wrong, HasSubstr("3 ranks cannot share 2 heads"));
  EXPECT_EQ(plan.error().diagnostics[0].right, "1 to 2");
}

TEST(TensorLayout, APlanThatWasEditedToAnotherMeshIsRefused) {
  const auto plan = make_plan(shared_job(2, 2, true), machine_of(2));
  ASSERT_TRUE(plan);
  const auto same = plan_from(to_json(*plan));
  ASSERT_TRUE(same) << same.error().to_text();
  EXPECT_EQ(same->mesh.tensor, 2);
  EXPECT_TRUE(same->job.parallel.sequence);
  Plan edited = *plan;
  edited.mesh = {.pipeline = 1, .data = 4, .context = 1, .tensor = 1};
  const auto read = plan_from(to_json(edited));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("data=2,tensor=2,sequence=1"));
}

}  // namespace
}  // namespace quadrille
