// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/text.h"

#include <gtest/gtest.h>

#include <array>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille {
namespace {

TEST(EditDistance, CountsOneForEachKindOfSlip) {
  EXPECT_EQ(edit_distance("steps", "steps"), 0);
  EXPECT_EQ(edit_distance("steps", "stps"), 1);
  EXPECT_EQ(edit_distance("steps", "stepss"), 1);
  EXPECT_EQ(edit_distance("steps", "staps"), 1);
  EXPECT_EQ(edit_distance("steps", "tseps"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(NearestWord, FindsOnlyWhatCanHaveBeenMeant) {
  const std::array<std::string_view, 3> words{"layers", "hidden", "heads"};
  EXPECT_EQ(nearest_word("layer", words), "layers");
  EXPECT_EQ(nearest_word("hiden", words), "hidden");
  EXPECT_EQ(nearest_word("zzzzzzz", words), std::nullopt);
  EXPECT_EQ(nearest_word("layer", {}), std::nullopt);
}

TEST(Text, SplitsAndJoinsBack) {
  const auto parts = split("a,,b,", ',');
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(join(parts, ","), "a,,b,");
}

TEST(Text, GroupsDigitsByThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
}

TEST(Text, QuotesForTheShellOnlyWhereNeeded) {
  EXPECT_EQ(shell_quoted("configs/demo.json"), "configs/demo.json");
  EXPECT_EQ(shell_quoted("two words"), "'two words'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(Units, SayBytesInTheLargestUnitThatFits) {
  EXPECT_EQ(to_text(Bytes(17)), "17 B");
  EXPECT_EQ(to_text(Bytes(1536)), "1.5 KiB");
  EXPECT_EQ(to_text(3_GiB), "3.0 GiB");
  EXPECT_EQ(to_text(Bytes((1 << 20) - 1)), "1.0 MiB");
}

TEST(Units, SayDurationsAsPeopleDo) {
  EXPECT_EQ(to_text(Seconds(0.0123)), "12.3 ms");
  EXPECT_EQ(to_text(Seconds(4.1)), "4.1 s");
  EXPECT_EQ(to_text(Seconds(125)), "2 min 05 s");
  EXPECT_EQ(to_text(Seconds(3720)), "1 h 02 min");
  EXPECT_EQ(to_text(Seconds(7199)), "2 h 00 min");
}

TEST(Units, CheckedArithmeticFindsOverflow) {
  const std::int64_t large = std::int64_t{1} << 62;
  EXPECT_EQ(checked_multiply(large, 2), std::nullopt);
  EXPECT_EQ(checked_add(large, large), std::nullopt);
  EXPECT_EQ(checked_multiply(3, 5), 15);
}

TEST(UnitsDeathTest, BytesThatOverflowStopTheProcess) {
  EXPECT_DEATH((void)(Bytes(std::int64_t{1} << 62) * 4), "check failed");
}

TEST(Units, WritesTimeAsIso8601) {
  const std::string now = utc_now_text();
  ASSERT_EQ(now.size(), std::string_view("2026-12-01T12:13:14.123Z").size());
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now.back(), 'Z');
}

TEST(Error, TellsEveryDiagnosticOnItsOwnLine) {
  Error error{Code::kInvalid, "the job is wrong", {}};
  error.diagnostics.push_back(
      {"job.json", 12, "training.steps", "\"2x\" is not a number", "a number"});
  error.diagnostics.push_back({"--set", 0, "model.layers", "-1 is too small", ""});
  EXPECT_EQ(error.to_text(),
            "the job is wrong\n"
            "job.json:12: training.steps: \"2x\" is not a number; expected a number\n"
            "--set: model.layers: -1 is too small");
}

TEST(Error, MapsErrnoToWhatTheCallerCanDo) {
  EXPECT_EQ(errno_error("x", ENOSPC).code, Code::kExhausted);
  EXPECT_EQ(errno_error("x", ENOENT).code, Code::kNotFound);
  EXPECT_EQ(errno_error("x", EIO).code, Code::kInternal);
  EXPECT_EQ(with_context(errno_error("cannot write \"f\"", ENOSPC), "saving").message,
            "saving: cannot write \"f\": No space left on device");
}

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Code::kInvalid, "odd");
  return n / 2;
}
Result<int> quarter(int n) {
  QD_RETURN_IF_ERROR(half(n));
  QD_ASSIGN_OR_RETURN(const int once, half(n));
  QD_ASSIGN_OR_RETURN(const int twice, half(once));
  return twice;
}

TEST(Result, MacrosPassValuesOnAndErrorsOut) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(3).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace quadrille
