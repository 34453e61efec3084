// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/job_values.h"
#include "quadrille/base/text.h"
#include "quadrille/config/job_reader.h"

namespace quadrille {
namespace {

// Optional paths that are not given have no text that would be legal.
bool is_blank(const Json& value) {
  return (value.is_string() && value.as_string().empty()) ||
         (value.is_array() && value.elements().empty());
}

Json& place_of(Json& root, std::string_view path) {
  Json* place = &root;
  for (const std::string& key : split(path, '.')) place = &place->at_or_insert(key);
  return *place;
}

}  // namespace

Json to_json(const JobSpec& job) {
  const internal::JobDraft draft{.job = job};
  Json root = Json::object();
  for (const internal::JobField& field : internal::job_fields()) {
    if (field.path == "training.tokens") continue;                      // Steps say the same.
    if (field.path == "model.vocab" && job.model.vocab == 0) continue;  // Still the tokenizer's.
    if (!field.applies_to(job)) continue;
    const auto value = internal::written_value(field, draft);
    if (value && !is_blank(*value)) place_of(root, field.path) = *value;
  }
  return root;
}

}  // namespace quadrille
