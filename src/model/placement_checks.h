// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether the placements of a model's parameters on the tensor axis fit what flows through it. Each
// operation derives the placement of its result from those of its operands; an operand that cannot
// be multiplied, a bias that would be added twice, a sum that nobody forms or a gradient that is
// declared otherwise than it comes out is refused when the model is built.

#include <span>

#include "quadrille/base/result.h"
#include "quadrille/model/transformer.h"

namespace quadrille::internal {

/// Errors: kInvalid naming the tensor, its placement, the axis and what does not fit it.
[[nodiscard]] Result<void> check_placements(const ModelSpec& spec, const TensorShare& share,
                                            std::span<const Parameter> parameters);

}  // namespace quadrille::internal
