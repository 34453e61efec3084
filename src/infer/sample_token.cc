// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "infer/token_draw.h"
#include "quadrille/base/check.h"
#include "quadrille/infer/generator.h"

namespace quadrille {

std::int32_t sample_token(std::vector<float> logits, const SamplingOptions& options, double draw) {
  QD_CHECK(!logits.empty());
  for (float& logit : logits) {
    if (std::isnan(logit)) logit = -std::numeric_limits<float>::infinity();
  }
  const auto most = std::max_element(logits.begin(), logits.end());  // the first of equals
  const auto greedy = static_cast<std::int32_t>(most - logits.begin());
  if (options.temperature <= 0 || !std::isfinite(*most)) return greedy;
  const double largest = *most;
  for (float& logit : logits) {
    logit = static_cast<float>(std::exp((double{logit} - largest) / options.temperature));
  }
  std::int32_t id = -1;
  if (options.top_k > 0 || options.top_p < 1) {
    id = internal::CutDraw().draw(logits, options, draw);
  } else {
    id = internal::walk(logits, draw * std::accumulate(logits.begin(), logits.end(), 0.0));
  }
  return id < 0 ? greedy : id;  // a draw so near 1 that rounding passed the end
}

}  // namespace quadrille
