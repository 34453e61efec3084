// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/embedding_layer.h"

#include "model/parameter_names.h"
#include "quadrille/kernels/embedding.h"

namespace quadrille::internal {

EmbeddingLayer::EmbeddingLayer(const ModelSpec& spec, std::span<const Parameter> parameters)
    : tokens_(parameters, token_embedding_name(spec)), dropout_(spec, "embedding.dropout") {
  if (has_learned_positions(spec)) positions_ = ParameterRef(parameters, "wpe.weight");
}

Result<void> EmbeddingLayer::forward(LayerContext& context) const {
  const TensorView out = context.activation(0, "output");
  decode(*context.stream, context.tokens, 0, out);
  dropout_.apply(context, out);
  return {};
}

Result<void> EmbeddingLayer::backward(LayerContext& context) const {
  // Nobody reads this gradient after us, so dropout may work on it in place.
  const TensorView dout = context.activation(1, "gradient");
  dropout_.apply(context, dout);
  kernels::embedding_backward(*context.stream, {.tokens = context.tokens,
                                                .dout = dout,
                                                .token_gradient = tokens_.gradient(),
                                                .position_gradient = positions_.gradient()});
  QD_RETURN_IF_ERROR(tokens_.contribute(context));
  return positions_.contribute(context);
}

std::vector<int> EmbeddingLayer::backward_order() const {
  std::vector<int> order{tokens_.index()};
  if (positions_.exists()) order.push_back(positions_.index());
  return order;
}

void EmbeddingLayer::decode(Stream& stream, const TensorView& tokens, std::int64_t first_position,
                            const TensorView& out) const {
  kernels::embedding_forward(stream, {.tokens = tokens,
                                      .token_table = tokens_.value(),
                                      .position_table = positions_.value(),
                                      .first_position = first_position,
                                      .out = out});
}

}  // namespace quadrille::internal
