// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_vocab_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "quadrille/kernels/vocab_cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_vocab_cross_entropy.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_parallel.h"
#include "kernels/host_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

void vocab_statistics_rows(const VocabPart& part, float* statistics, std::int64_t first,
                           std::int64_t count) {
  for (std::int64_t r = first; r < first + count; ++r) {
    float* row = part.logits + r * part.vocab;
    const std::int64_t target = part.targets[r] - part.first_id;
    const bool own = part.targets[r] >= 0 && target >= 0 && target < part.vocab;
    float* out = statistics + r * kernels::kRowStatistics;
    out[2] = own ? row[target] : 0.0F;
    out[0] = largest(row, part.vocab);
    out[1] = exponentiate(row, part.vocab, out[0]);
  }
}

void scale_row(float* row, std::int64_t count, float factor) { scale(row, count, factor); }

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

/// What all parts say of a row.
struct JoinedRow {
  float most = 0;
  float sum = 0;     ///< Of e^(logit - most).
  float target = 0;  ///< The target's logit.
};

JoinedRow join(const AllParts& all, std::int64_t rows, std::int64_t row) {
  const auto of_part = [&](std::int64_t part) {
    return all.statistics + (part * rows + row) * kernels::kRowStatistics;
  };
  JoinedRow joined;
  joined.most = of_part(0)[0];
  for (std::int64_t p = 1; p < all.parts; ++p) joined.most = std::max(joined.most, of_part(p)[0]);
  for (std::int64_t p = 0; p < all.parts; ++p) {
    joined.sum += of_part(p)[1] * std::exp(of_part(p)[0] - joined.most);
    joined.target += of_part(p)[2];
  }
  return joined;
}

}  // namespace

HWY_EXPORT(vocab_statistics_rows);
HWY_EXPORT(scale_row);

void host_vocab_statistics(const VocabPart& part, float* statistics) {
  constexpr std::int64_t kRows = 4;
  parallel_blocks(part.rows, kRows, [&](std::int64_t first, std::int64_t count) {
    HWY_DYNAMIC_DISPATCH(vocab_statistics_rows)(part, statistics, first, count);
  });
}

double host_vocab_cross_entropy(const VocabPart& part, const AllParts& all) {
  constexpr std::int64_t kRows = 4;
  thread_local std::vector<double> scratch;
  scratch.resize(static_cast<std::size_t>(part.rows));
  double* losses = scratch.data();
  const auto one_row = [&part, &all, losses](std::int64_t r) {
    float* row = part.logits + r * part.vocab;
    losses[r] = 0;
    if (part.targets[r] < 0) {
      if (all.gradient) std::fill_n(row, part.vocab, 0.0F);
      return;
    }
    const JoinedRow joined = join(all, part.rows, r);
    losses[r] = std::log(static_cast<double>(joined.sum)) + static_cast<double>(joined.most) -
                static_cast<double>(joined.target);
    if (!all.gradient) return;
    const float own = all.statistics[(all.own * part.rows + r) * kernels::kRowStatistics];
    HWY_DYNAMIC_DISPATCH(scale_row)
    (row, part.vocab, std::exp(own - joined.most) / joined.sum);
    const std::int64_t target = part.targets[r] - part.first_id;
    if (target >= 0 && target < part.vocab) row[target] -= 1.0F;
  };
  parallel_blocks(part.rows, kRows, [&one_row](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r) one_row(r);
  });
  return std::accumulate(losses, losses + part.rows, 0.0);
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
