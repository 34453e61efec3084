// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/report/profile_table.h"

#include <gmock/gmock.h>

#include "quadrille/base/text.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Two steps of a second each: 0.8 s of products, 0.15 s of copies, a trifle.
StepsProfile made_up_profile() {
  StepsProfile profile;
  profile.steps = 2;
  profile.threads = 2;
  profile.seconds = Seconds(2);
  profile.page_faults = 14;
  profile.leases = 2;
  profile.operations = {{.name = "matmul",
                         .extents = {8, 4, 2},
                         .variant = "NT",
                         .calls = 4,
                         .seconds = Seconds(1.6),
                         .flops = Flops(160e9),
                         .bytes = 1.6e9},
                        {.name = "copy", .calls = 2, .seconds = Seconds(0.3), .bytes = 3e9},
                        {.name = "trifle", .calls = 20, .seconds = Seconds(1e-4), .bytes = 10}};
  return profile;
}

const Roofs kRoofs{{"matmul 8x4x2 NT", {.flops_per_second = 125e9, .bytes_per_second = 20e9}},
                   {"copy", {.flops_per_second = 0, .bytes_per_second = 20e9}}};

std::string line_with(const std::string& text, const std::string& word) {
  for (const std::string& line : split(text, '\n')) {
    if (line.find(word) != std::string::npos) return line;
  }
  return "";
}

TEST(ProfileTable, SaysWhereAStepsTimeGoesAndHowNearTheRoofItIs) {
  const std::string table = profile_table(made_up_profile(), kRoofs);
  const std::string products = line_with(table, "matmul 8x4x2 NT");
  EXPECT_THAT(products, HasSubstr("800.000"));  // ms of a step
  EXPECT_THAT(products, HasSubstr("80.0%"));
  EXPECT_THAT(products, HasSubstr("100.0"));  // GFLOP/s
  EXPECT_THAT(products, HasSubstr("products    80%"));
  const std::string copies = line_with(table, "copy");
  EXPECT_THAT(copies, HasSubstr("10.0"));  // GB/s
  EXPECT_THAT(copies, HasSubstr("memory    50%"));
  EXPECT_THAT(line_with(table, "between operations"), HasSubstr("5.0%"));
  EXPECT_THAT(table, HasSubstr("page faults of a step: 7.0; leases of the pool: 1.0"));
}

TEST(ProfileTable, PutsWhatTakesNoTimeIntoOneRow) {
  const std::string table = profile_table(made_up_profile(), {});
  EXPECT_THAT(table, Not(HasSubstr("trifle")));
  EXPECT_THAT(line_with(table, "others"), HasSubstr("10"));  // calls of a step
}

TEST(ProfileTable, SaysWhenNoStepCounts) {
  EXPECT_THAT(profile_table({}, {}), HasSubstr("No step to profile"));
}

TEST(ProfileTable, TakesTheNearerRoof) {
  OperationProfile operation = made_up_profile().operations[0];
  operation.bytes = 30e9;  // 1.5 s at the memory's rate, 1.28 s at the products'
  const Reached found = reached(operation, kRoofs.at("matmul 8x4x2 NT"));
  EXPECT_EQ(found.bound, Bound::kMemory);
  EXPECT_DOUBLE_EQ(found.fraction, 1.5 / 1.6);
  EXPECT_EQ(reached(operation, {}).bound, Bound::kUnknown);
}

TEST(ProfileJson, HasTheTablesFiguresPerStepAndNullForWhatIsUnknown) {
  const Json json = profile_json(made_up_profile(), kRoofs);
  EXPECT_DOUBLE_EQ(json.number_or("step_seconds", 0), 1);
  EXPECT_DOUBLE_EQ(json.number_or("page_faults", 0), 7);
  const std::vector<Json>& rows = json.find("operations")->elements();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].string_or("operation", ""), "matmul 8x4x2 NT");
  EXPECT_DOUBLE_EQ(rows[0].number_or("calls", 0), 2);
  EXPECT_DOUBLE_EQ(rows[0].number_or("reached", 0), (160.0 / 125) / 1.6);
  EXPECT_EQ(rows[0].string_or("bound", ""), "products");
  EXPECT_TRUE(rows[1].find("flops_per_second")->is_null());
  EXPECT_TRUE(rows[2].find("bound")->is_null()) << "nothing is known of its roof";
}

}  // namespace
}  // namespace quadrille
