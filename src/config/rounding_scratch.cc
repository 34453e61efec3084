// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A linear layer with a weight [out, in] multiplies, over N = B*T rows, x [N, in] and the weight,
// dy [N, out] and x, and dy and the weight. The head holds its three operands at once: x, the
// weight, and the gradient of one chunk of logits.

#include <algorithm>

#include "config/logit_rows.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

/// Each operand starts on a cache line.
std::int64_t padded(std::int64_t elements) { return (elements + 15) / 16 * 16; }

std::int64_t of_linear(std::int64_t out, std::int64_t in, std::int64_t rows) {
  const std::int64_t weight = padded(out * in);
  const std::int64_t x = padded(rows * in);
  const std::int64_t dy = padded(rows * out);
  return std::max({x + weight, dy + weight, dy + x});
}

}  // namespace

std::int64_t rounding_scratch(const ModelSpec& model, BatchShape batch, const TensorShare& share) {
  const std::int64_t rows = batch.micro_batch * batch.sequence;
  std::int64_t most = 0;
  for (const ParameterShape& parameter : parameter_shapes(model, share)) {
    if (!parameter.in_product || parameter.shape.size() != 2) continue;
    const std::vector<std::int64_t> shape = parameter.piece(share).shape();
    const std::int64_t out = shape[0];
    const std::int64_t in = shape[1];
    const bool in_block = parameter.layer >= 1 && parameter.layer <= model.layers;
    const std::int64_t elements = in_block ? of_linear(out, in, rows)
                                           : padded(rows * in) + padded(out * in) +
                                                 padded(internal::logit_rows(rows, out) * out);
    most = std::max(most, elements);
  }
  return most;
}

}  // namespace quadrille
