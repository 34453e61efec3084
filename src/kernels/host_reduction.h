// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of the sums. None depends on the number of threads: blocks are cut by extents
// and put together in order.

#include <cstdint>
#include <vector>

namespace quadrille::internal {

/// sums[n] += sum over m of dy[m, n].
void host_add_column_sums(const float* dy, std::int64_t rows, std::int64_t columns, float* sums);
[[nodiscard]] double host_sum_of_squares(const float* x, std::int64_t count);
[[nodiscard]] std::int64_t host_count_nonfinite(const float* x, std::int64_t count);
/// `target` may be one of the sources.
void host_sum_in_order(const std::vector<const float*>& sources, float* target, std::int64_t count);

}  // namespace quadrille::internal
