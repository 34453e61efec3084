// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/embedding_layer.h"

#include "model/parameter_names.h"
#include "quadrille/kernels/embedding.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {

EmbeddingLayer::EmbeddingLayer(const ModelSpec& spec, std::span<const Parameter> parameters)
    : tokens_(parameters, token_embedding_name(spec)),
      dropout_(spec, "embedding.dropout"),
      hidden_(spec.hidden),
      vocab_(spec.vocab) {
  if (has_learned_positions(spec)) positions_ = ParameterRef(parameters, "wpe.weight");
}

Result<void> EmbeddingLayer::forward(LayerContext& context) const {
  Stream& stream = *context.stream;
  const TensorGroup& group = context.tensor;
  const TensorView out = context.activation(0, "output");
  const TensorView rows = group.shares_rows() ? context.activation(0, "partial") : out;
  // Each rank has its words' rows, one of them the positions; the sum has each once.
  kernels::embedding_forward(
      stream, {.tokens = context.tokens,
               .token_table = tokens_.value(),
               .position_table = group.index() == 0 ? positions_.value() : TensorView(),
               .out = rows,
               .first_id = first_id(group),
               .vocab = vocab_});
  QD_RETURN_IF_ERROR(group.sum_rows(stream, rows, hidden_));
  if (group.shares_rows()) kernels::copy(stream, group.own_rows(rows, hidden_), out);
  dropout_.apply(context, out);
  return {};
}

std::int64_t EmbeddingLayer::first_id(const TensorGroup& group) const {
  return shard_extent(vocab_, group.index(), group.size()).first;
}

Result<void> EmbeddingLayer::backward(LayerContext& context) const {
  // Nobody reads this gradient after us, so dropout may work on it in place.
  const TensorView dout = context.activation(1, "gradient");
  dropout_.apply(context, dout);
  QD_ASSIGN_OR_RETURN(const TensorView all, whole_rows(context, dout, hidden_, [&context] {
                        return context.activation(0, "gathered");
                      }));
  kernels::embedding_backward(*context.stream, {.tokens = context.tokens,
                                                .dout = all,
                                                .token_gradient = tokens_.gradient(),
                                                .position_gradient = positions_.gradient(),
                                                .first_id = first_id(context.tensor),
                                                .vocab = vocab_});
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
