// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/check.h"

#include <gtest/gtest.h>

#include <string>

#include "quadrille/base/enum_text.h"

namespace quadrille {
namespace {

TEST(CheckDeathTest, NamesRankExpressionPlaceAndMessage) {
  const int layers = 3;
  EXPECT_DEATH(
      {
        set_check_rank(7);
        QD_CHECK_MSG(layers == 4, "layers: " + std::to_string(layers));
      },
      "rank 7: check failed: layers == 4 at .*check_test.cc:[0-9]+: layers: 3");
  EXPECT_DEATH(QD_CHECK(layers < 0), "^check failed: layers < 0 at");
}

TEST(Check, EvaluatesTheMessageOnlyWhenItFails) {
  int evaluated = 0;
  const auto message = [&] {
    ++evaluated;
    return "never";
  };
  QD_CHECK_MSG(evaluated == 0, message());
  EXPECT_EQ(evaluated, 0);
}

enum class Colour { kRed, kBlue };
constexpr EnumTable<Colour, 2> kColourText{{{{Colour::kRed, "red"}, {Colour::kBlue, "blue"}}}};

TEST(EnumTable, GoesBothWaysThroughOneTable) {
  for (const auto& [value, text] : kColourText.rows) {
    EXPECT_EQ(kColourText.text(value), text);
    EXPECT_EQ(kColourText.value(text), value);
  }
  EXPECT_EQ(kColourText.value("green"), std::nullopt);
  EXPECT_EQ(kColourText.text(static_cast<Colour>(9)), "?");
  EXPECT_EQ(kColourText.choices(), "\"red\", \"blue\"");
}

}  // namespace
}  // namespace quadrille
