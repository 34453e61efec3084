// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether two layouts compute the same: a few steps of a job's own model, narrower and with fewer
// layers, under each of them with ranks as threads, tensor by tensor. What makes layouts differ is
// in how tensors are cut, summed and scaled, and a small model has all of that.

#include <cstdint>
#include <optional>
#include <string>

#include "quadrille/base/result.h"
#include "quadrille/config/layout.h"

namespace quadrille {

struct VerifyOptions {
  Layout a;
  Layout b;
  std::int64_t steps = 3;
  std::string folder;  ///< For what a run writes; must exist.
};

struct VerifyOutcome {
  std::string model;                      ///< What was trained, in words.
  std::optional<std::string> difference;  ///< The first, in words; nothing where they are equal.
};

/// The job with a model small enough to keep everything it computes: at most 2 layers, heads at
/// most 8 wide, all heads, words and ratios of widths kept; fp32, fresh weights, a batch that both
/// layouts divide.
[[nodiscard]] JobSpec reduced_job(const JobSpec& job, const Layout& a, const Layout& b);

/// Errors: kInvalid where a layout does not fit the job; what training failed with.
[[nodiscard]] Result<VerifyOutcome> verify_layouts(const JobSpec& job,
                                                   const VerifyOptions& options);

}  // namespace quadrille
