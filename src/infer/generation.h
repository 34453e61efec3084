// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Samples of some prompts, decoded together. The draws of a prompt's sample i depend on (seed, i,
// position) alone, and a model's numbers for a text not on what is computed beside it: so neither
// does the text.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "infer/inference_model.h"
#include "quadrille/infer/generator.h"

namespace quadrille::internal {

using Emit = std::function<bool(std::int64_t sample, std::string_view text)>;

/// Positions that a window of this model has: those whose embeddings were trained.
[[nodiscard]] std::int64_t window_of(const JobSpec& job);

/// Errors: kInvalid for sampling options without a meaning or logits that are not finite.
[[nodiscard]] Result<GenerationReport> generate_samples(InferenceModel& model,
                                                        std::span<const std::string> prompts,
                                                        const SamplingOptions& options,
                                                        const Emit& emit);

}  // namespace quadrille::internal
