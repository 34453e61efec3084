// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How fast the pairs of a head turn with the position.

#include <vector>

#include "quadrille/config/job_spec.h"

namespace quadrille::internal {

/// D / 2 frequencies in radians a position, fastest first: rope_base^(-2i / D), stretched as
/// rope_scaling says.
[[nodiscard]] std::vector<double> rotary_frequencies(const ModelSpec& spec);

}  // namespace quadrille::internal
