// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/json.h"

#include <gmock/gmock.h>

#include <limits>

namespace quadrille {
namespace {

using ::testing::HasSubstr;

Json parsed(std::string_view text, bool comments = false) {
  auto value = parse_json(text, {.file = "f.json", .comments = comments});
  EXPECT_TRUE(value.has_value()) << value.error().to_text();
  return value ? *value : Json();
}

Error refused(std::string_view text, bool comments = false) {
  auto value = parse_json(text, {.file = "f.json", .comments = comments});
  EXPECT_FALSE(value.has_value()) << text;
  if (value) return {};
  EXPECT_EQ(value.error().code, Code::kInvalid);
  EXPECT_FALSE(value.error().diagnostics.empty());
  return value.error();
}

TEST(Json, KnowsTheLineOfEveryValueAcrossCommentsAndNumbers) {
  const Json job = parsed(
      "// first\n"
      "{\n"
      "  /* two\n"
      "     lines */ \"a\": 1,\n"
      "  \"b\": [2,\n"
      "        3.5\n"
      "  ], // after\n"
      "  \"c\": \"text\",\n"
      "  \"d\":\n"
      "    7\n"
      "}\n",
      true);
  EXPECT_EQ(job.line(), 2);
  EXPECT_EQ(job.find("a")->line(), 4);
  EXPECT_EQ(job.find("b")->line(), 5);
  EXPECT_EQ(job.find("b")->elements()[0].line(), 5);
  EXPECT_EQ(job.find("b")->elements()[1].line(), 6);
  EXPECT_EQ(job.find("c")->line(), 8);
  EXPECT_EQ(job.find("d")->line(), 10);
}

TEST(Json, KeepsSixtyFourBitIntegersExact) {
  const Json value = parsed("[9223372036854775807, -9223372036854775808, 1.0, 1e3]");
  EXPECT_EQ(value.elements()[0].as_integer(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(value.elements()[1].as_integer(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(value.elements()[2].kind(), Json::Kind::kReal);
  EXPECT_EQ(value.elements()[3].kind(), Json::Kind::kReal);
}

TEST(Json, RefusesIntegersBeyondSixtyFourBits) {
  for (const char* digits : {"9223372036854775808", "-9223372036854775809", "18446744073709551616",
                             "100000000000000000000000"}) {
    const Error error = refused(std::string("{\"a\":\n") + digits + "\n}");
    ASSERT_EQ(error.diagnostics.size(), 1U);
    EXPECT_EQ(error.diagnostics[0].line, 2) << digits;
    EXPECT_EQ(error.diagnostics[0].path, "a");
    EXPECT_THAT(error.diagnostics[0].wrong, HasSubstr(digits));
  }
}

TEST(Json, RefusesRealsBeyondADouble) {
  EXPECT_THAT(refused("[1e400]").to_text(), HasSubstr("1e400"));
}

TEST(Json, ReportsEveryDuplicateKeyWithLineAndPath) {
  const Error error = refused("{\"m\": {\"a\": 1,\n\"a\": 2},\n\"m\": 3,\n\"x\": 4}");
  ASSERT_EQ(error.diagnostics.size(), 2U);
  EXPECT_EQ(error.diagnostics[0].path, "m.a");
  EXPECT_EQ(error.diagnostics[0].line, 2);
  EXPECT_EQ(error.diagnostics[1].path, "m");
  EXPECT_EQ(error.diagnostics[1].line, 3);
}

TEST(Json, NamesFileLineAndPathOfASyntaxError) {
  const Error error = refused("{\n \"a\": {\n  \"b\": [1, tru]\n }\n}");
  ASSERT_EQ(error.diagnostics.size(), 1U);
  EXPECT_EQ(error.diagnostics[0].file, "f.json");
  EXPECT_EQ(error.diagnostics[0].line, 3);
  EXPECT_EQ(error.diagnostics[0].path, "a.b[1]");
  EXPECT_THAT(error.diagnostics[0].wrong, HasSubstr("tru"));
}

TEST(Json, SaysWhatWasExpectedWhereTheTextEnds) {
  const Error error = refused("{\"a\"");
  EXPECT_THAT(error.diagnostics[0].wrong, HasSubstr("unexpected end of input"));
  EXPECT_THAT(error.diagnostics[0].right, HasSubstr("':'"));
}

TEST(Json, RefusesCommentsUnlessAskedFor) {
  refused("// no\n{}");
  EXPECT_TRUE(parsed("// yes\n{}", true).is_object());
}

TEST(Json, RefusesBytesThatOtherReadersTakeSilently) {
  EXPECT_THAT(refused("\xEF\xBB\xBF{}").to_text(), HasSubstr("byte order mark"));
  EXPECT_THAT(refused(std::string_view("{}\0x", 4)).to_text(), HasSubstr("NUL"));
  EXPECT_THAT(refused("\n\n[\"\xC0\xAF\"]").to_text(),
              HasSubstr("f.json:3: bytes that are not UTF-8"));
  EXPECT_THAT(refused("// \xFF\n{}", true).to_text(), HasSubstr("not UTF-8"));
  refused("{} {}");
  refused("");
  refused("NaN");
}

TEST(Json, NestsOnlyToItsBound) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parsed(nested(64)).is_array());
  EXPECT_THAT(refused(nested(65)).to_text(), HasSubstr("nested too deeply"));
  refused(std::string(1 << 20, '['));
}

TEST(Json, ReadsBackWhatItWrites) {
  Json value = Json::object();
  value.set("integer", std::int64_t{-5}).set("real", 2.0).set("tiny", 5e-324).set("large", 1e300);
  value.set("text", "quote \" slash \\ line\n tab\t bell\a \xC3\xA9 \xF0\x9F\x8E\xB6");
  value.set("null", Json()).set("yes", true).set("list", Json::array().push(1).push("x"));
  value.set("nested", Json::array().push(Json::object().set("k", 0.1)).push(Json::array()));
  for (const int indent : {0, 2}) {
    const std::string text = write_json(value, indent);
    EXPECT_EQ(parsed(text), value) << text;
    EXPECT_EQ(text.find('\n') == std::string::npos, indent == 0);
  }
}

TEST(Json, WritesNullForNumbersWithoutAWordAndReplacesBrokenText) {
  EXPECT_EQ(write_json(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(write_json(-std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(write_json("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
}

TEST(Json, ComparesObjectsWithoutTheirOrder) {
  EXPECT_EQ(parsed("{\"a\":1,\"b\":[2]}"), parsed("{\"b\":[2],\n\"a\":1}"));
  EXPECT_FALSE(parsed("{\"a\":1}") == parsed("{\"a\":1.0}"));
  EXPECT_FALSE(parsed("{\"a\":1}") == parsed("{\"b\":1}"));
}

TEST(Json, LenientReadsFallBackOnOtherKinds) {
  const Json value = parsed("{\"n\": 3, \"s\": \"t\", \"b\": true}");
  EXPECT_EQ(value.integer_or("n", 0), 3);
  EXPECT_EQ(value.number_or("n", 0), 3.0);
  EXPECT_EQ(value.integer_or("s", 9), 9);
  EXPECT_EQ(value.string_or("n", "other"), "other");
  EXPECT_TRUE(value.bool_or("b", false));
  EXPECT_EQ(value.find("absent"), nullptr);
  EXPECT_EQ(Json(3).find("n"), nullptr);
}

TEST(Json, ReadsManyMembersInLinearTime) {
  // 200,000 members: a quadratic reader would need minutes, and the test's own time-out ends it.
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  EXPECT_EQ(parsed(text + "}").members().size(), 200'000U);
}

}  // namespace
}  // namespace quadrille
