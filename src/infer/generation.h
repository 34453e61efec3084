// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Samples of one prompt, decoded together. Sample i's draws depend on (seed, i, position) alone.

#include <cstdint>
#include <functional>
#include <string_view>

#include "infer/inference_model.h"
#include "quadrille/infer/generator.h"

namespace quadrille::internal {

using Emit = std::function<bool(std::int64_t sample, std::string_view text)>;

/// Positions that a window of this model has: those whose embeddings were trained.
[[nodiscard]] std::int64_t window_of(const JobSpec& job);

/// Errors: kInvalid for sampling options without a meaning or logits that are not finite.
[[nodiscard]] Result<void> generate_samples(InferenceModel& model, std::string_view prompt,
                                            const SamplingOptions& options, const Emit& emit);

}  // namespace quadrille::internal
