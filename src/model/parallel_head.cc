// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/parallel_head.h"

#include <algorithm>

#include "model/layer.h"
#include "quadrille/kernels/matmul.h"
#include "quadrille/kernels/vocab_cross_entropy.h"

namespace quadrille::internal {
namespace {

/// Rows [first, first + count).
Result<void> run_chunk(LayerContext& context, const ParallelHead& head,
                       const kernels::HeadLoss& loss, Extent rows) {
  Stream& stream = *context.stream;
  const TensorGroup& group = context.tensor;
  const std::int64_t vocab = loss.weight.shape()[0];
  const TensorView x = loss.x.rows(rows.first, rows.length);
  const TensorView targets = loss.targets.flat(rows.first, rows.length);
  const TensorView logits = front_of(loss.workspace, {rows.length, vocab});
  const Shape shape{group.size(), rows.length, kernels::kRowStatistics};
  const TensorView statistics = front_of(head.statistics, shape);
  kernels::matmul(stream, {.a = x,
                           .b = loss.weight,
                           .c = logits,
                           .transpose_b = true,
                           .bias = {},
                           .rounding = loss.rounding});
  kernels::vocab_statistics(
      stream, {.logits = logits,
               .targets = targets,
               .first_id = head.first_id,
               .statistics = statistics.rows(group.index(), 1).reshape({rows.length, shape[2]})});
  QD_RETURN_IF_ERROR(group.gather_parts(stream, statistics));
  const bool gradient = !loss.dx.empty();
  kernels::vocab_cross_entropy(stream, {.logits = logits,
                                        .targets = targets,
                                        .first_id = head.first_id,
                                        .statistics = statistics,
                                        .part = group.index(),
                                        .loss_sum = loss.loss_sum,
                                        .gradient = gradient});
  if (!gradient) return {};
  kernels::matmul(stream, {.a = logits,
                           .b = loss.weight,
                           .c = loss.dx.rows(rows.first, rows.length),
                           .bias = {},
                           .rounding = loss.rounding});
  kernels::matmul(stream, {.a = logits,
                           .b = x,
                           .c = loss.weight_gradient,
                           .transpose_a = true,
                           .bias = {},
                           .accumulate = loss.accumulate || rows.first > 0,
                           .rounding = loss.rounding});
  return {};
}

}  // namespace

Result<void> parallel_head_loss(LayerContext& context, const ParallelHead& head,
                                const kernels::HeadLoss& loss) {
  const std::int64_t rows = loss.x.shape()[0];
  const std::int64_t chunk = loss.workspace.shape()[0];
  for (std::int64_t first = 0; first < rows; first += chunk) {
    QD_RETURN_IF_ERROR(run_chunk(context, head, loss, {first, std::min(chunk, rows - first)}));
  }
  return {};
}

}  // namespace quadrille::internal
