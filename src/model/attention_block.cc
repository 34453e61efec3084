// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/attention_block.h"

#include "model/parameter_names.h"
#include "quadrille/kernels/attention.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {

AttentionBlock::AttentionBlock(const ModelSpec& spec, std::int64_t layer,
                               std::span<const Parameter> parameters)
    : layer_(layer),
      hidden_(spec.hidden),
      norm_(spec, parameters, block_names(spec, layer).attention_norm),
      qkv_(make_attention_projections(spec, layer, parameters)),
      projection_(parameters, block_names(spec, layer).attention_output, spec.bias),
      dropout_(spec, site_prefix(layer) + "attn.dropout") {}

Result<void> AttentionBlock::forward(LayerContext& context, const TensorView& x) const {
  Stream& stream = *context.stream;
  const TensorView branch = context.activation(layer_, "branch");
  const TensorView qkv = context.activation(layer_, "qkv");
  const TensorView attention = context.activation(layer_, "attention");
  const TensorView own = context.tensor.own_rows(branch, hidden_);
  norm_.forward(stream, x, own, statistics(context));
  QD_RETURN_IF_ERROR(context.tensor.gather_rows(stream, branch, hidden_));
  qkv_->forward(context, branch, qkv);
  kernels::attention_forward(stream, {.input = qkv_->arrange(qkv),
                                      .out = attention,
                                      .log_sum_exp = context.activation(layer_, "log_sum_exp")});
  projection_.forward(context, attention, branch);
  QD_RETURN_IF_ERROR(context.tensor.sum_rows(stream, branch, hidden_));
  dropout_.add(context, own, x, context.activation(layer_, "middle"));
  return {};
}

Result<void> AttentionBlock::backward(LayerContext& context, const TensorView& x,
                                      const TensorView& dmiddle) const {
  Stream& stream = *context.stream;
  const TensorView attention = context.activation(layer_, "attention");
  const TensorView qkv = context.activation(layer_, "qkv");
  // `wide` holds the gradient of qkv and, after it, that of the attention's output.
  const TensorView wide = context.activation(layer_, "wide");
  const TensorView dqkv = front_of(wide, qkv.shape());
  const TensorView dattention =
      wide.flat(qkv.elements(), attention.elements()).reshape(attention.shape());
  const TensorView narrow = context.activation(layer_, "narrow");
  const TensorView own = context.tensor.own_rows(narrow, hidden_);
  QD_ASSIGN_OR_RETURN(const TensorView dprojected,
                      whole_rows(context, dropout_.backward(context, dmiddle, own), hidden_,
                                 [&narrow] { return narrow; }));
  QD_RETURN_IF_ERROR(projection_.add_gradients(context, attention, dprojected));
  projection_.input_gradient(context, dprojected, dattention);
  kernels::attention_backward(stream, {.input = qkv_->arrange(qkv),
                                       .out = attention,
                                       .log_sum_exp = context.activation(layer_, "log_sum_exp"),
                                       .dout = dattention,
                                       .delta = context.activation(layer_, "delta"),
                                       .gradient = qkv_->arrange(dqkv)});
  qkv_->backward_positions(stream, dqkv);
  norm_.forward(stream, x, own, statistics(context));
  QD_RETURN_IF_ERROR(context.tensor.gather_rows(stream, narrow, hidden_));
  QD_RETURN_IF_ERROR(qkv_->add_gradients(context, narrow, dqkv));
  qkv_->input_gradient(context, dqkv, narrow);
  QD_RETURN_IF_ERROR(context.tensor.sum_rows(stream, narrow, hidden_));
  return norm_backward(context, x, dmiddle);
}

Result<void> AttentionBlock::norm_backward(LayerContext& context, const TensorView& x,
                                           const TensorView& dmiddle) const {
  const TensorView dx = context.activation(layer_, "gradient");
  kernels::copy(*context.stream, dmiddle, dx);
  const TensorView narrow = context.activation(layer_, "narrow");
  return norm_.backward(context, {.dy = context.tensor.own_rows(narrow, hidden_),
                                  .x = x,
                                  .statistics = statistics(context),
                                  .dx = dx,
                                  .accumulate = true});
}

void AttentionBlock::decode(const DecodeBuffers& buffers) const {
  Stream& stream = *buffers.stream;
  norm_.forward(stream, buffers.x, buffers.branch, buffers.norm);
  qkv_->decode(buffers);
  kernels::attention_cached(stream, {.input = qkv_->arrange(buffers.qkv),
                                     .sequences = buffers.sequences,
                                     .key_cache = buffers.key_cache,
                                     .value_cache = buffers.value_cache,
                                     .out = buffers.attention});
  projection_.decode(buffers, buffers.attention, buffers.x, true);
}

void AttentionBlock::append_order(std::vector<int>& order) const {
  projection_.append_order(order);
  qkv_->append_order(order);
  norm_.append_order(order);
}

}  // namespace quadrille::internal
