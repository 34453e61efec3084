// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/job_reference.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "config/job_values.h"
#include "quadrille/base/file.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;

TEST(JobReference, IsWhatTheTableSays) {
  const auto written = read_text_file(QUADRILLE_SOURCE_DIR "/docs/job-reference.md");
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(*written, job_reference_markdown())
      << "write it anew: ninja -C build/release job-reference";
}

TEST(JobReference, HasARowForEveryKeyOfAWrittenJob) {
  // Derived from the writer, not from the table: a key that is written has to be explained.
  const std::string text = job_reference_markdown();
  const Json job = to_json(JobSpec());
  for (const auto& [object, value] : job.members()) {
    if (!value.is_object()) {
      EXPECT_THAT(text, HasSubstr("| `" + object + "` |"));
      continue;
    }
    for (const auto& [key, member] : value.members()) {
      const std::string row = "| `" + object + "." + key + (member.is_object() ? "." : "` |");
      EXPECT_THAT(text, HasSubstr(row));
    }
  }
}

TEST(JobFields, EveryRowHasAMeaningAndDefaultsThatItsOwnRangeAllows) {
  internal::JobDraft fresh;
  for (const internal::JobField& field : internal::job_fields()) {
    EXPECT_TRUE(field.meaning.ends_with(".")) << field.path;
    EXPECT_FALSE(internal::expected_text(field).empty()) << field.path;
    const auto value = internal::written_value(field, fresh);
    if (!value || !field.default_text.empty()) continue;
    const auto problem = internal::read_value(field, *value, fresh);
    EXPECT_FALSE(problem.has_value()) << field.path << ": " << (problem ? problem->wrong : "");
  }
}

TEST(Configs, EachIsALegalJob) {
  int configs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUADRILLE_SOURCE_DIR "/configs")) {
    const auto job = read_job(entry.path().string());
    ASSERT_TRUE(job.has_value()) << job.error().to_text();
    EXPECT_GT(parameter_count(job->model), 0);
    const auto again = parse_job({.file = "/f", .text = write_json(to_json(*job))});
    ASSERT_TRUE(again.has_value()) << again.error().to_text();
    EXPECT_EQ(to_json(*again), to_json(*job)) << entry.path();
    ++configs;
  }
  EXPECT_GE(configs, 4);
}

}  // namespace
}  // namespace quadrille
