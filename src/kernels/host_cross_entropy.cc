// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_cross_entropy.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_parallel.h"
#include "kernels/host_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// losses[i] = -log softmax(row i)[target i].
void cross_entropy_rows(const CrossEntropyChunk& chunk, std::int64_t first, std::int64_t count,
                        double* losses) {
  for (std::int64_t r = first; r < first + count; ++r) {
    float* row = chunk.logits + r * chunk.vocab;
    const std::int32_t target = chunk.targets[r];
    losses[r] = 0;
    if (target < 0) {
      if (chunk.gradient) std::fill_n(row, chunk.vocab, 0.0F);
      continue;
    }
    const float of_target = row[target];
    const float most = largest(row, chunk.vocab);
    const float sum = exponentiate(row, chunk.vocab, most);
    losses[r] = std::log(static_cast<double>(sum)) + static_cast<double>(most) -
                static_cast<double>(of_target);
    if (!chunk.gradient) continue;
    scale(row, chunk.vocab, 1.0F / sum);
    row[target] -= 1.0F;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {

HWY_EXPORT(cross_entropy_rows);

double host_cross_entropy(const CrossEntropyChunk& chunk) {
  constexpr std::int64_t kRows = 4;
  thread_local std::vector<double> scratch;
  scratch.resize(static_cast<std::size_t>(chunk.rows));
  double* losses = scratch.data();
  parallel_blocks(chunk.rows, kRows, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(chunk, first, count, losses);
  });
  return std::accumulate(losses, losses + chunk.rows, 0.0);
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
