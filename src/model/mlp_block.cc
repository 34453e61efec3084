// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/mlp_block.h"

#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {

MlpBlock::MlpBlock(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters)
    : layer_(layer),
      norm_(spec, parameters, block_prefix(layer) + "ln_2"),
      fc_(parameters, block_prefix(layer) + "mlp.c_fc", spec.bias),
      projection_(parameters, block_prefix(layer) + "mlp.c_proj", spec.bias),
      dropout_(spec, block_prefix(layer) + "mlp.dropout") {}

Norm::Statistics MlpBlock::statistics(const LayerContext& context) const {
  return {.mean = context.activation(layer_, "ln_2.mean"),
          .rstd = context.activation(layer_, "ln_2.rstd")};
}

Result<void> MlpBlock::forward(LayerContext& context) const {
  Stream& stream = *context.stream;
  const TensorView middle = context.activation(layer_, "middle");
  const TensorView branch = context.activation(layer_, "branch");
  const TensorView fc = context.activation(layer_, "fc");
  const TensorView gelu = context.activation(layer_, "gelu");
  norm_.forward(stream, middle, branch, statistics(context));
  fc_.forward(context, branch, fc);
  kernels::gelu_forward(stream, fc, gelu);
  projection_.forward(context, gelu, branch);
  dropout_.add(context, branch, middle, context.activation(layer_, "output"));
  return {};
}

Result<void> MlpBlock::backward(LayerContext& context, const TensorView& gradient) const {
  Stream& stream = *context.stream;
  const TensorView middle = context.activation(layer_, "middle");
  const TensorView narrow = context.activation(layer_, "narrow");
  const TensorView fc = context.activation(layer_, "fc");
  const TensorView wide =
      context.activation(layer_, "wide").flat(0, fc.elements()).reshape(fc.shape());
  const TensorView dprojected = dropout_.backward(context, gradient, narrow);
  // `wide` is first the GELU's output, computed again, then its gradient, then that of its input.
  kernels::gelu_forward(stream, fc, wide);
  QD_RETURN_IF_ERROR(projection_.add_gradients(context, wide, dprojected));
  projection_.input_gradient(context, dprojected, wide);
  kernels::gelu_backward(stream, fc, wide, wide);
  // `narrow` is first the normed input, computed again, then its gradient.
  norm_.forward(stream, middle, narrow, statistics(context));
  QD_RETURN_IF_ERROR(fc_.add_gradients(context, narrow, wide));
  fc_.input_gradient(context, wide, narrow);
  return norm_.backward(context, {.dy = narrow,
                                  .x = middle,
                                  .statistics = statistics(context),
                                  .dx = gradient,
                                  .accumulate = true});
}

void MlpBlock::decode(const DecodeBuffers& buffers) const {
  Stream& stream = *buffers.stream;
  norm_.forward(stream, buffers.x, buffers.branch, buffers.norm);
  fc_.decode(stream, buffers.branch, buffers.fc);
  kernels::gelu_forward(stream, buffers.fc, buffers.gelu);
  projection_.decode(stream, buffers.gelu, buffers.branch);
  kernels::add(stream, buffers.branch, buffers.x);
}

void MlpBlock::append_order(std::vector<int>& order) const {
  projection_.append_order(order);
  fc_.append_order(order);
  norm_.append_order(order);
}

}  // namespace quadrille::internal
