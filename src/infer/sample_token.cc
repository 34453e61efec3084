// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "quadrille/base/check.h"
#include "quadrille/infer/generator.h"

namespace quadrille {
namespace {

/// The ids that may be drawn, most likely first where a cut needs the order (equal logits by id).
std::vector<std::int32_t> candidates(const std::vector<float>& logits,
                                     const SamplingOptions& options) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (options.top_k == 0 && options.top_p >= 1) return ids;
  std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  if (options.top_k > 0) {
    ids.resize(std::min(ids.size(), static_cast<std::size_t>(options.top_k)));
  }
  return ids;
}

/// How many of the first weights make up at least the part `top_p` of their sum.
std::size_t nucleus(const std::vector<double>& weights, double top_p) {
  if (top_p >= 1) return weights.size();
  const double wanted = top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum >= wanted) return i + 1;
  }
  return weights.size();
}

}  // namespace

std::int32_t sample_token(std::vector<float> logits, const SamplingOptions& options, double draw) {
  QD_CHECK(!logits.empty());
  for (float& logit : logits) {
    if (std::isnan(logit)) logit = -std::numeric_limits<float>::infinity();
  }
  const auto most = std::max_element(logits.begin(), logits.end());  // the first of equals
  const auto greedy = static_cast<std::int32_t>(most - logits.begin());
  if (options.temperature <= 0 || !std::isfinite(*most)) return greedy;
  const std::vector<std::int32_t> ids = candidates(logits, options);
  std::vector<double> weights;
  for (const std::int32_t id : ids) {
    const double below = double{logits[static_cast<std::size_t>(id)]} - double{*most};
    weights.push_back(std::exp(below / options.temperature));
  }
  weights.resize(nucleus(weights, options.top_p));
  const double target = draw * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum > target) return ids[i];
  }
  return greedy;  // a draw so near 1 that rounding passed the end
}

}  // namespace quadrille
