// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/hugging_face_config.h"

#include <algorithm>

#include "config/job_values.h"
#include "quadrille/base/text.h"

namespace quadrille::internal {

const Json* HuggingFaceFields::find(std::string_view key) const {
  const Json* value = config_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void HuggingFaceFields::count(std::string_view key, std::string_view target) {
  const Json* value = find(key);
  if (value != nullptr && value->is_integer() && value->as_integer() > 0) {
    model_.set(target, value->as_integer());
    return;
  }
  report(key, value == nullptr ? "missing" : quoted_value(*value) + " is no size",
         "a whole number from 1");
}

void HuggingFaceFields::count_or(std::string_view key, std::string_view target,
                                 std::int64_t otherwise) {
  if (find(key) != nullptr) return count(key, target);
  model_.set(target, otherwise);
}

void HuggingFaceFields::number_or(std::string_view key, std::string_view target, double otherwise) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_number()) {
    return report(key, quoted_value(*value) + " is not a number", "a number");
  }
  model_.set(target, value == nullptr ? otherwise : value->as_number());
}

void HuggingFaceFields::bool_or(std::string_view key, std::string_view target, bool otherwise) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_bool()) {
    return report(key, quoted_value(*value) + " is not true or false", "true or false");
  }
  model_.set(target, value == nullptr ? otherwise : value->as_bool());
}

void HuggingFaceFields::must_be(std::string_view key, const Json& only) {
  const Json* value = find(key);
  if (value == nullptr || *value == only) return;
  report(key, quoted_value(*value) + " is not available in this version", write_json(only));
}

void HuggingFaceFields::one_of(std::string_view key, const std::vector<std::string_view>& choices) {
  const Json* value = find(key);
  if (value == nullptr) return;
  for (const std::string_view choice : choices) {
    if (value->is_string() && value->as_string() == choice) return;
  }
  std::vector<std::string> words;
  for (const std::string_view choice : choices) words.push_back(write_json(Json(choice)));
  report(key, quoted_value(*value) + " is not available in this version",
         "one of " + join(words, ", "));
}

void HuggingFaceFields::report(std::string_view key, std::string wrong, std::string right) {
  const Json* value = config_.find(key);
  diagnostics_.push_back({file_, value == nullptr ? config_.line() : value->line(),
                          std::string(key), std::move(wrong), std::move(right)});
}

Result<Json> HuggingFaceFields::finish() {
  if (diagnostics_.empty()) return std::move(model_);
  std::stable_sort(diagnostics_.begin(), diagnostics_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.line < b.line; });
  return fail(Error{Code::kInvalid, "the model of \"" + file_ + "\" cannot be used here",
                    std::move(diagnostics_)});
}

}  // namespace quadrille::internal
