// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two layouts of one job, step by step: where they first differ by more than rounding, and on which
// axis the cause likely is.

#include <optional>
#include <span>
#include <string>

#include "quadrille/config/layout.h"
#include "train/layout_trace.h"

namespace quadrille::internal {

/// What rounding alone may do. A tensor's difference, by norm, is held to a part of its norm, or to
/// a smaller part of the norm of all tensors of its kind, whichever is more: some gradients are
/// zero but for rounding (key biases).
struct Tolerance {
  double figure = 1e-5;  ///< Of losses and the gradient norm, relative.
  double tensor = 2e-5;
  double floor = 1e-6;
};

/// The first difference, in the order in which a step computes, in words; nothing where the two are
/// equal. Both have the same steps of the same model and batch.
[[nodiscard]] std::optional<std::string> first_difference(std::span<const TracedStep> a,
                                                          std::span<const TracedStep> b,
                                                          const ParallelSpec& layout_a,
                                                          const ParallelSpec& layout_b,
                                                          const Tolerance& tolerance = {});

/// Trains `job` from fresh weights for `steps` steps with ranks as threads. `folder` exists and may
/// be written to. Errors: those of planning and training; kInternal where ranks of one layout
/// disagree about what they hold alike.
[[nodiscard]] Result<std::vector<TracedStep>> trace_layout(const JobSpec& job, std::int64_t steps,
                                                           const std::string& folder);

}  // namespace quadrille::internal
