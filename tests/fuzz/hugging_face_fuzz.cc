// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// The readers of config.json and model.safetensors.index.json on any text. Whatever comes: no
// crash; a refusal says why; a config that is accepted and makes a legal job gives, when written
// and read again, the same model; an accepted index names plain files.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "quadrille/base/check.h"
#include "quadrille/base/json.h"
#include "quadrille/checkpoint/hugging_face.h"
#include "quadrille/config/hugging_face.h"
#include "quadrille/config/job_reader.h"

namespace quadrille {
namespace {

/// The job that starts from a model of this shape, if it is a legal one.
Result<JobSpec> job_with(const Json& model) {
  Json job = Json::object();
  job.set("model", model);
  job.set("data", Json::object().set("train", "a.txt"));
  job.set("training", Json::object().set("steps", 1).set("global_batch", 1));
  return parse_job({.file = "job.json", .text = write_json(job), .expand_globs = false});
}

void read_any_config(const Json& config) {
  const auto model = model_from_hugging_face(config, "config.json");
  if (!model) {
    QD_CHECK(model.error().code == Code::kInvalid);
    QD_CHECK(!model.error().diagnostics.empty());
    return;
  }
  const auto job = job_with(*model);
  if (!job) return;
  const Json written = hugging_face_config(job->model);
  const auto again = model_from_hugging_face(written, "again");
  QD_CHECK_MSG(again.has_value(), again.error().to_text());
  const auto same = job_with(*again);
  QD_CHECK_MSG(same.has_value(), same.error().to_text());
  QD_CHECK(write_json(to_json(*same)) == write_json(to_json(*job)));
}

void read_any_index(std::string_view text) {
  const auto index = parse_safetensors_index(text, "index.json");
  if (!index) {
    QD_CHECK(index.error().code == Code::kCorrupt);
    return;
  }
  QD_CHECK(!index->empty());
  for (const auto& [name, file] : *index) {
    QD_CHECK(!file.empty() && file.front() != '.');
    QD_CHECK(file.find('/') == std::string::npos);
  }
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto json = quadrille::parse_json(text, {})) quadrille::read_any_config(*json);
  quadrille::read_any_index(text);
  return 0;
}
