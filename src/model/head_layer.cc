// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/head_layer.h"

#include "model/decode_buffers.h"
#include "model/parallel_head.h"
#include "model/parameter_names.h"
#include "quadrille/kernels/head_loss.h"
#include "quadrille/kernels/projection.h"

namespace quadrille::internal {

HeadLayer::HeadLayer(const ModelSpec& spec, std::span<const Parameter> parameters)
    : layer_(layer_count(spec) - 1),
      tied_(spec.tie_embeddings),
      vocab_(spec.vocab),
      norm_(spec, parameters, final_norm_name(spec)),
      weight_(parameters, head_name(spec)) {}

Norm::Statistics HeadLayer::statistics(const LayerContext& context) const {
  return norm_.statistics(context, layer_, "final_norm");
}

Result<void> HeadLayer::forward(LayerContext& context) const {
  const TensorView weight = weight_.value();
  const std::int64_t hidden = weight.shape()[1];
  const TensorView normed = context.activation(layer_, "normed");
  const TensorGroup& group = context.tensor;
  norm_.forward(*context.stream, context.activation(layer_ - 1, "output"),
                group.own_rows(normed, hidden), statistics(context));
  QD_RETURN_IF_ERROR(group.gather_rows(*context.stream, normed, hidden));
  kernels::HeadLoss loss = {.x = as_rows(normed, hidden),
                            .weight = weight,
                            .targets = context.targets.flat(),
                            .loss_sum = context.loss_sum,
                            .workspace = context.activation(layer_, "logits"),
                            .dx = {},
                            .weight_gradient = {},
                            .rounding = context.rounding,
                            .rounded_weight = weight_.rounded(context)};
  if (context.training) {
    loss.dx = as_rows(context.activation(layer_, "normed_gradient"), hidden);
    loss.weight_gradient = weight_.gradient();
    loss.accumulate = !context.first_micro_batch;
  }
  if (group.size() == 1) {
    kernels::head_loss(*context.stream, loss);
  } else {
    const ParallelHead head{.first_id = shard_extent(vocab_, group.index(), group.size()).first,
                            .statistics = context.activation(layer_, "statistics")};
    QD_RETURN_IF_ERROR(parallel_head_loss(context, head, loss));
    if (context.training) QD_RETURN_IF_ERROR(group.sum_rows(*context.stream, loss.dx, hidden));
  }
  return context.training ? weight_.contribute(context) : Result<void>{};
}

Result<void> HeadLayer::backward(LayerContext& context) const {
  const std::int64_t hidden = weight_.value().shape()[1];
  const TensorView dnormed = context.activation(layer_, "normed_gradient");
  return norm_.backward(context, {.dy = context.tensor.own_rows(dnormed, hidden),
                                  .x = context.activation(layer_ - 1, "output"),
                                  .statistics = statistics(context),
                                  .dx = context.activation(layer_, "gradient")});
}

std::vector<int> HeadLayer::backward_order() const {
  std::vector<int> order;
  if (!tied_) order.push_back(weight_.index());
  norm_.append_order(order);
  return order;
}

void HeadLayer::decode(const DecodeBuffers& buffers, const TensorView& logits) const {
  const TensorView weight = weight_.value();
  const std::int64_t rows = logits.shape()[0];
  const Norm::Statistics statistics = {.mean = buffers.norm.mean.flat(0, rows),
                                       .rstd = buffers.norm.rstd.flat(0, rows)};
  const TensorView x = as_rows(buffers.x, weight.shape()[1]);
  const TensorView normed = as_rows(buffers.branch, weight.shape()[1]).rows(0, rows);
  norm_.forward(*buffers.stream, x.rows(x.shape()[0] - rows, rows), normed, statistics);
  kernels::projection(*buffers.stream, {.x = normed,
                                        .weight = buffers.weights->of(weight_.index(), weight),
                                        .bias = {},
                                        .y = logits,
                                        .scratch = buffers.scratch});
}

}  // namespace quadrille::internal
