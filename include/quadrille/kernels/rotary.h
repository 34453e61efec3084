// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rotary positions: element i of a head's first half and element i of its second half are a point
// in a plane that turns with the position, so that a score depends on how far query and key are
// apart. Pairs are (i, i + D/2), Hugging Face's order; Meta's files have (2i, 2i + 1). Source: Su
// et al. 2021, "RoFormer", section 3.2.2.

#include <cstdint>
#include <vector>

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// Turns pair i of every head at position first_position + t by (first_position + t) *
/// frequencies[i], in place. `inverse` turns back, which is also the gradient of turning.
/// Shapes: queries [B, T, A*D], keys [B, T, K*D]; D / 2 frequencies.
struct Rotary {
  TensorView queries;
  TensorView keys;
  std::vector<double> frequencies;  ///< Radians a position.
  std::int64_t first_position = 0;
  bool inverse = false;
};
void rotary(Stream& stream, const Rotary& arguments);

}  // namespace quadrille::kernels
