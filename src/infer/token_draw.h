// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One draw from weights that a softmax would divide by their sum.

#include <cstdint>
#include <span>
#include <vector>

#include "quadrille/infer/generator.h"

namespace quadrille::internal {

/// The id that `draw` in [0, 1) falls on when the ids lie side by side, each as wide as its weight.
/// Past the end, where rounding may lead, none.
[[nodiscard]] std::int32_t walk(std::span<const float> weights, double target);

/// Draws with top-k and top-p. Nothing is sorted but ids of nearly one weight, about the last that
/// are kept. Not for several threads at once: it keeps its scratch from draw to draw.
class CutDraw {
 public:
  /// `weights` are in [0, 1] and not all 0. -1 past the end.
  [[nodiscard]] std::int32_t draw(std::span<const float> weights, const SamplingOptions& options,
                                  double draw);

 private:
  void count(std::span<const float> weights);
  void keep_largest(std::span<const float> weights, std::int64_t count);
  void keep_part(std::span<const float> weights, double part);
  /// Ids of the edge's bucket, the largest weights first, equal ones by id.
  void sort_edge(std::span<const float> weights);
  [[nodiscard]] double mass() const;

  std::vector<std::int32_t> counts_;    ///< By bucket of weights.
  std::vector<double> masses_;          ///< By bucket.
  std::size_t edge_ = 0;                ///< Above it all ids are kept, below it none.
  std::vector<std::int32_t> edge_ids_;  ///< That are kept of the edge's bucket.
};

}  // namespace quadrille::internal
