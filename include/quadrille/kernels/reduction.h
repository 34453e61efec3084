// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums. Each is deterministic: a fixed order for given extents and thread count.

#include <span>

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// gradient[n] += sum over rows of dy[m, n]. Shapes: dy [M, N], gradient [N].
void add_column_sums(Stream& stream, const TensorView& dy, const TensorView& gradient);

/// result[0] += sum of squares of x, accumulated in float64. result [1] float64.
void add_sum_of_squares(Stream& stream, const TensorView& x, const TensorView& result);

/// target[i] = sources[0][i] + sources[1][i] + ... in that order: the collectives' sum in rank
/// order. `target` may be one of the sources.
void sum_in_order(Stream& stream, std::span<const TensorView> sources, const TensorView& target);

/// result[0] = number of elements of x that are NaN or infinite, added. result [1] float64.
void add_count_of_nonfinite(Stream& stream, const TensorView& x, const TensorView& result);

}  // namespace quadrille::kernels
