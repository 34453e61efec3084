// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/mlp_block.h"

#include "model/parameter_names.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {

MlpBlock::MlpBlock(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters)
    : layer_(layer),
      hidden_(spec.hidden),
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
  const TensorView own = context.tensor.own_rows(branch, hidden_);
  norm_.forward(stream, middle, own, statistics(context));
  QD_RETURN_IF_ERROR(context.tensor.gather_rows(stream, branch, hidden_));
  expansion_->forward(context, branch, expanded);
  expansion_->activate(stream, expanded, activated);
  projection_.forward(context, activated, branch);
  QD_RETURN_IF_ERROR(context.tensor.sum_rows(stream, branch, hidden_));
  dropout_.add(context, own, middle, context.activation(layer_, "output"));
  return {};
}

Result<void> MlpBlock::backward(LayerContext& context, const TensorView& gradient) const {
  Stream& stream = *context.stream;
  const TensorView middle = context.activation(layer_, "middle");
  const TensorView narrow = context.activation(layer_, "narrow");
  const TensorView expanded = context.activation(layer_, "expanded");
  const TensorView wide = front_of(context.activation(layer_, "wide"), expanded.shape());
  const TensorView own = context.tensor.own_rows(narrow, hidden_);
  QD_ASSIGN_OR_RETURN(const TensorView dprojected,
                      whole_rows(context, dropout_.backward(context, gradient, own), hidden_,
                                 [&narrow] { return narrow; }));
  // The front of `wide` is first the activated MLP, computed again, then its gradient; then `wide`
  // is that of the expanded MLP.
  const std::int64_t rows = context.tokens.elements();
  const TensorView activated = front_of(wide, {rows, projection_.inputs()});
  expansion_->activate(stream, expanded, activated);
  QD_RETURN_IF_ERROR(projection_.add_gradients(context, activated, dprojected));
  projection_.input_gradient(context, dprojected, activated);
  expansion_->activate_backward(stream, expanded, wide);
  // `narrow` is first the normed input, computed again, then its gradient.
  norm_.forward(stream, middle, own, statistics(context));
  QD_RETURN_IF_ERROR(context.tensor.gather_rows(stream, narrow, hidden_));
  QD_RETURN_IF_ERROR(expansion_->add_gradients(context, narrow, wide));
  expansion_->input_gradient(context, wide, narrow);
  QD_RETURN_IF_ERROR(context.tensor.sum_rows(stream, narrow, hidden_));
  return norm_.backward(context, {.dy = own,
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
