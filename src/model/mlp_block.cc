// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/mlp_block.h"

#include "model/parameter_names.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {

MlpBlock::MlpBlock(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters)
    : layer_(layer),
      norm_(spec, parameters, block_names(spec, layer).mlp_norm),
      expansion_(make_expansion(spec, layer, parameters)),
      projection_(parameters, block_names(spec, layer).mlp_output, spec.bias),
      dropout_(spec, site_prefix(layer) + "mlp.dropout") {}

Result<void> MlpBlock::forward(LayerContext& context) const {
  Stream& stream = *context.stream;
  const TensorView middle = context.activation(layer_, "middle");
  const TensorView branch = context.activation(layer_, "branch");
  const TensorView expanded = context.activation(layer_, "expanded");
  const TensorView activated = context.activation(layer_, "activated");
  norm_.forward(stream, middle, branch, statistics(context));
  expansion_->forward(context, branch, expanded);
  expansion_->activate(stream, expanded, activated);
  projection_.forward(context, activated, branch);
  dropout_.add(context, branch, middle, context.activation(layer_, "output"));
  return {};
}

Result<void> MlpBlock::backward(LayerContext& context, const TensorView& gradient) const {
  Stream& stream = *context.stream;
  const TensorView middle = context.activation(layer_, "middle");
  const TensorView narrow = context.activation(layer_, "narrow");
  const TensorView expanded = context.activation(layer_, "expanded");
  const TensorView wide = front_of(context.activation(layer_, "wide"), expanded.shape());
  const TensorView dprojected = dropout_.backward(context, gradient, narrow);
  // The front of `wide` is first the activated MLP, computed again, then its gradient; then `wide`
  // is that of the expanded MLP.
  const std::int64_t rows = middle.shape()[0] * middle.shape()[1];
  const TensorView activated = front_of(wide, {rows, projection_.inputs()});
  expansion_->activate(stream, expanded, activated);
  QD_RETURN_IF_ERROR(projection_.add_gradients(context, activated, dprojected));
  projection_.input_gradient(context, dprojected, activated);
  expansion_->activate_backward(stream, expanded, wide);
  // `narrow` is first the normed input, computed again, then its gradient.
  norm_.forward(stream, middle, narrow, statistics(context));
  QD_RETURN_IF_ERROR(expansion_->add_gradients(context, narrow, wide));
  expansion_->input_gradient(context, wide, narrow);
  return norm_.backward(context, {.dy = narrow,
                                  .x = middle,
                                  .statistics = statistics(context),
                                  .dx = gradient,
                                  .accumulate = true});
}

void MlpBlock::decode(const DecodeBuffers& buffers) const {
  Stream& stream = *buffers.stream;
  norm_.forward(stream, buffers.x, buffers.branch, buffers.norm);
  expansion_->decode(buffers, buffers.branch, buffers.expanded);
  expansion_->activate(stream, buffers.expanded, buffers.activated);
  projection_.decode(buffers, buffers.activated, buffers.x, true);
}

void MlpBlock::append_order(std::vector<int>& order) const {
  projection_.append_order(order);
  expansion_->append_order(order);
  norm_.append_order(order);
}

}  // namespace quadrille::internal
