// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/stage_cut.h"

#include <cmath>

namespace quadrille::internal {

StageCut cut_stages(const TransformerShape& model, const RunLayout& layout) {
  const std::int64_t stages = layout.pipeline;
  const auto layers = static_cast<double>(model.layers);
  if (stages == 1) return {layers, layers, layers};
  const bool even = model.layers % stages == 0;
  if ((!even || layout.embedding_as_layer) && (model.layers + 2) % stages == 0) {
    const auto each = static_cast<double>((model.layers + 2) / stages);
    return {each - 1, stages > 2 ? each : each - 1, each - 1};
  }
  const double fullest = std::ceil(layers / static_cast<double>(stages));
  const double least = std::floor(layers / static_cast<double>(stages));
  return {fullest, fullest, least};
}

}  // namespace quadrille::internal
