// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quadrille::internal {
namespace {

/// Slow pairs, which have not turned often in the original context, are stretched; fast ones, which
/// tell neighbours apart, are not.
double llama3_scaled(double frequency, const RopeScaling& scaling) {
  const double turns =
      static_cast<double>(scaling.original_context) * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp(
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0,
      1.0);
  return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

}  // namespace

std::vector<double> rotary_frequencies(const ModelSpec& spec) {
  const std::int64_t width = spec.head_width();
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double frequency =
        std::pow(spec.rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    switch (spec.rope_scaling.type) {
      case RopeScalingType::kNone:
        frequencies.push_back(frequency);
        break;
      case RopeScalingType::kLinear:
        frequencies.push_back(frequency / spec.rope_scaling.factor);
        break;
      case RopeScalingType::kLlama3:
        frequencies.push_back(llama3_scaled(frequency, spec.rope_scaling));
        break;
    }
  }
  return frequencies;
}

}  // namespace quadrille::internal
