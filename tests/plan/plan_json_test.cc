// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "plan/sample_job.h"
#include "quadrille/plan/plan.h"

namespace quadrille {
namespace {

using test::machine_of;
using test::sample_job;
using ::testing::HasSubstr;

Json sample_json() {
  JobSpec job = sample_job();
  job.parallel.data = 2;
  MachineFacts machine = machine_of(2);
  machine.peak_flops_per_second = 1.5e11;
  machine.peak_source = "a test";
  const auto plan = make_plan(job, machine);
  EXPECT_TRUE(plan.has_value()) << plan.error().to_text();
  // By way of text, as a rank process gets it.
  return parse_json(write_json(to_json(*plan), 2), {.file = "plan.json"}).value();
}

TEST(PlanJson, ReadsBackAnEqualPlan) {
  const Json json = sample_json();
  const auto plan = plan_from(json);
  ASSERT_TRUE(plan.has_value()) << plan.error().to_text();
  EXPECT_EQ(write_json(to_json(*plan)), write_json(json));
  EXPECT_EQ(plan->ranks(), 2);
  EXPECT_EQ(plan->micro_batch, 6);
  EXPECT_EQ(plan->machine.peak_flops_per_second, 1.5e11);
  EXPECT_EQ(plan->program.ranks[0], plan->program.ranks[1]);
}

TEST(PlanJson, ListsEqualRanksOnce) {
  const Json json = sample_json();
  EXPECT_EQ(json.find("program")->find("stages")->elements().size(), 1U);
}

/// Each edit makes the file disagree with itself in one way.
TEST(PlanJson, RefusesWhatDoesNotAgreeWithItself) {
  struct Case {
    const char* what;
    std::function<void(Json&)> edit;
    const char* complaint;
  };
  const auto first_stage = [](Json& json) -> Json {
    return json.find("program")->find("stages")->elements()[0];
  };
  const auto put_stages = [](Json& json, std::vector<Json> stages) {
    Json list = Json::array();
    for (Json& stage : stages) list.push(std::move(stage));
    json.at_or_insert("program").set("stages", std::move(list));
  };
  const std::vector<Case> cases = {
      {"another version", [](Json& json) { json.set("version", 2); }, "version 2"},
      {"no version", [](Json& json) { json = Json::object(); }, "version 0"},
      {"another model", [](Json& json) { json.set("parameters", 7); }, "7 parameters"},
      {"a batch that is not covered", [](Json& json) { json.set("micro_batch", 5); },
       "global batch"},
      {"no micro-batch", [](Json& json) { json.set("micro_batch", "many"); }, "global batch"},
      {"no mesh", [](Json& json) { json.set("mesh", nullptr); }, ""},
      {"no job", [](Json& json) { json.set("job", nullptr); }, ""},
      {"no program", [](Json& json) { json.set("program", nullptr); }, "no program"},
      {"negative bytes", [](Json& json) { json.set("rank_limit_bytes", -1); }, "rank_limit_bytes"},
      {"a rank without work",
       [&](Json& json) {
         Json stage = first_stage(json);
         Json one = Json::array();
         one.push(0);
         stage.set("ranks", std::move(one));
         put_stages(json, {stage});
       },
       "without instructions"},
      {"a rank with two programs",
       [&](Json& json) {
         put_stages(json, {first_stage(json), first_stage(json)});
       },
       "twice"},
      {"an unknown instruction",
       [&](Json& json) {
         Json stage = first_stage(json);
         Json row = Json::array();
         row.push("fly").push(0).push(0);
         stage.at_or_insert("instructions").push(std::move(row));
         put_stages(json, {stage});
       },
       "fly"},
      {"a program that does not verify",
       [&](Json& json) {
         Json stage = first_stage(json);
         Json row = Json::array();
         row.push("optimizer_step").push(-1).push(-1);
         stage.at_or_insert("instructions").push(std::move(row));
         put_stages(json, {stage});
       },
       ""},
      {"layers of another program",
       [](Json& json) { json.at_or_insert("program").set("layers", 9); }, "9 layers"},
  };
  for (const Case& wrong : cases) {
    Json json = sample_json();
    wrong.edit(json);
    const auto plan = plan_from(json);
    ASSERT_FALSE(plan.has_value()) << wrong.what;
    EXPECT_EQ(plan.error().code, Code::kInvalid) << wrong.what;
    EXPECT_THAT(plan.error().to_text(), HasSubstr(wrong.complaint)) << wrong.what;
  }
}

TEST(PlanJson, AnUnknownPeakStaysUnknown) {
  const auto plan = make_plan(sample_job(), machine_of(1));
  const auto again = plan_from(to_json(plan.value()));
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->machine.peak_flops_per_second.has_value());
  EXPECT_EQ(again->machine.peak_source, "unknown");
}

}  // namespace
}  // namespace quadrille
