// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads the fields of a config.json one by one into a job's `model` object and gathers everything
// that is wrong with them.

#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

class HuggingFaceFields {
 public:
  HuggingFaceFields(const Json& config, std::string file)
      : config_(config), file_(std::move(file)) {}

  /// The field, or null where it is absent or null.
  [[nodiscard]] const Json* find(std::string_view key) const;
  /// A whole number from 1 that must be there.
  void count(std::string_view key, std::string_view target);
  /// One that need not be.
  void count_or(std::string_view key, std::string_view target, std::int64_t otherwise);
  void number_or(std::string_view key, std::string_view target, double otherwise);
  void bool_or(std::string_view key, std::string_view target, bool otherwise);
  /// Must be `only` where it is there.
  void must_be(std::string_view key, const Json& only);
  /// Must be one of `choices` where it is there.
  void one_of(std::string_view key, const std::vector<std::string_view>& choices);

  void report(std::string_view key, std::string wrong, std::string right);
  Json& model() { return model_; }
  /// What was read so far, or 0.
  [[nodiscard]] std::int64_t value(std::string_view target) const {
    return model_.integer_or(target, 0);
  }
  [[nodiscard]] Result<Json> finish();

 private:
  const Json& config_;
  std::string file_;
  Json model_ = Json::object();
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace quadrille::internal
