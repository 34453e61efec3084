// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/block_layer.h"

namespace quadrille::internal {

BlockLayer::BlockLayer(const ModelSpec& spec, std::int64_t layer,
                       std::span<const Parameter> parameters)
    : layer_(layer), attention_(spec, layer, parameters), mlp_(spec, layer, parameters) {}

Result<void> BlockLayer::forward(LayerContext& context) const {
  QD_RETURN_IF_ERROR(attention_.forward(context, context.activation(layer_ - 1, "output")));
  return mlp_.forward(context);
}

Result<void> BlockLayer::backward(LayerContext& context) const {
  const TensorView gradient = context.activation(layer_ + 1, "gradient");
  QD_RETURN_IF_ERROR(mlp_.backward(context, gradient));
  return attention_.backward(context, context.activation(layer_ - 1, "output"), gradient);
}

std::vector<int> BlockLayer::backward_order() const {
  std::vector<int> order;
  mlp_.append_order(order);
  attention_.append_order(order);
  return order;
}

void BlockLayer::decode(const DecodeBuffers& buffers) const {
  attention_.decode(buffers);
  mlp_.decode(buffers);
}

}  // namespace quadrille::internal
