// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// The reader of jobs on any bytes. Lines `--set PATH=VALUE` at the start are overrides, the rest is
// the job. Whatever comes: no crash; a refusal that says why; a job that is accepted reads back
// equal.

#include <cstddef>
#include <cstdint>

#include "quadrille/base/check.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

JobText job_of(std::string_view input) {
  constexpr std::string_view kSet = "--set ";
  JobText job{.file = "/folder/job.json", .expand_globs = false};
  while (input.starts_with(kSet)) {
    const std::size_t end = std::min(input.find('\n'), input.size() - 1);
    auto change = parse_override(input.substr(kSet.size(), end - kSet.size()));
    if (change) job.overrides.push_back(std::move(*change));
    input.remove_prefix(end + 1);
  }
  job.text = input;
  return job;
}

void check_refusal(const Error& error) {
  QD_CHECK(error.code == Code::kInvalid);
  QD_CHECK(!error.diagnostics.empty());
  for (const Diagnostic& diagnostic : error.diagnostics) {
    QD_CHECK(!diagnostic.file.empty());
    QD_CHECK(!diagnostic.wrong.empty());
  }
}

void read_any_job(std::string_view input) {
  const JobText text = job_of(input);
  const auto job = parse_job(text);
  if (!job) return check_refusal(job.error());
  const Json written = to_json(*job);
  const auto again =
      parse_job({.file = "/x/job.json", .text = write_json(written, 2), .expand_globs = false});
  QD_CHECK_MSG(again.has_value(), again.error().to_text());
  QD_CHECK(to_json(*again) == written);
  // What the reader lets through, later arithmetic must hold.
  if (job->model.family != ModelFamily::kCustom) {  // a program's own model has no shape here
    QD_CHECK(parameter_count(job->model) > 0);
    QD_CHECK(job->model.heads % job->model.key_value_heads() == 0);
    QD_CHECK(job->model.family == ModelFamily::kLlama || job->model.hidden % job->model.heads == 0);
  }
  QD_CHECK(job->training.steps > 0);
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::read_any_job({reinterpret_cast<const char*>(data), size});
  return 0;
}
