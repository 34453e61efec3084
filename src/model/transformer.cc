// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/model/transformer.h"

#include <algorithm>
#include <utility>

#include "model/block_layer.h"
#include "model/embedding_layer.h"
#include "model/head_layer.h"
#include "model/layer.h"
#include "model/parameter_names.h"
#include "model/placement_checks.h"
#include "quadrille/base/random.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille {

Shape Parameter::own_shape() const {
  const std::vector<std::int64_t>& extents = piece.shape();
  QD_CHECK(extents.size() == 1 || extents.size() == 2);
  if (extents.size() == 1) return {extents[0]};
  return {extents[0], extents[1]};
}

struct Transformer::State {
  ModelSpec spec;
  std::vector<Parameter> parameters;  ///< Never resized: the layers point into it.
  std::vector<std::unique_ptr<internal::Layer>> layers;
};

namespace {

/// Rows of the piece that this rank multiplies: of keys and values that are whole on every rank,
/// those of the head that its queries share.
Extent used_rows(const ModelSpec& spec, const ParameterShape& shape, const TensorShare& share) {
  const std::int64_t rows = shape.piece(share).shape()[0];
  const bool keys_or_values =
      shape.name.ends_with("k_proj.weight") || shape.name.ends_with("v_proj.weight");
  if (!keys_or_values || shares_kv_heads(spec, share)) return {0, rows};
  const Extent heads = kv_heads(spec, share);
  return {heads.first * spec.head_width(), heads.length * spec.head_width()};
}

std::vector<Parameter> declare(const ModelSpec& spec, const TensorShare& share) {
  const std::string embedding = internal::token_embedding_name(spec);
  std::vector<Parameter> parameters;
  for (ParameterShape& shape : parameter_shapes(spec, share)) {
    Parameter parameter;
    parameter.contributions = spec.tie_embeddings && shape.name == embedding ? 2 : 1;
    parameter.piece = shape.piece(share);
    parameter.used_rows = used_rows(spec, shape, share);
    // Rows that no product of this rank writes must be zero when ranks sum.
    parameter.overwritten =
        shape.in_product && parameter.used_rows.length == parameter.piece.shape()[0];
    parameter.shape = std::move(shape);
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

/// The model as a block of this rank works on it: its heads and its columns.
ModelSpec block_spec(const ModelSpec& spec, const TensorShare& share) {
  if (share.degree == 1) return spec;
  ModelSpec own = spec;
  own.head_dimension = spec.head_width();
  own.heads = query_heads(spec, share).length;
  own.kv_heads = kv_heads(spec, share).length;
  own.ffn = ffn_columns(spec, share).length;
  return own;
}

Result<void> check_heads(const ModelSpec& spec) {
  const auto counted = [](const char* what, std::int64_t count) {
    return std::string(what) + " " + std::to_string(count);
  };
  if (spec.head_dimension == 0 && spec.hidden % spec.heads != 0) {
    return fail(Code::kInvalid, counted("hidden", spec.hidden) + " does not divide into " +
                                    std::to_string(spec.heads) + " heads");
  }
  if (spec.family == ModelFamily::kGpt2) {
    if (spec.key_value_heads() == spec.heads && spec.query_columns() == spec.hidden) return {};
    return fail(Code::kInvalid,
                "a gpt2 has as many key and value heads as heads, each of hidden / "
                "heads numbers");
  }
  if (spec.heads % spec.key_value_heads() != 0) {
    return fail(Code::kInvalid, counted("heads", spec.heads) + " do not divide into " +
                                    std::to_string(spec.key_value_heads()) +
                                    " groups of one key and value head");
  }
  if (spec.head_width() % 2 != 0) {
    return fail(Code::kInvalid, counted("a head of", spec.head_width()) +
                                    " numbers does not split into pairs for rotary positions");
  }
  if (spec.bias) return fail(Code::kInvalid, "a llama has no biases");
  return {};
}

}  // namespace

Transformer::Transformer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Transformer::~Transformer() = default;

Result<std::unique_ptr<Transformer>> Transformer::create(const ModelSpec& spec,
                                                         const TensorShare& share) {
  if (spec.is_custom()) {
    return fail(Code::kInvalid,
                "the model family \"custom\" is a program's own: train it with `quadrille launch "
                "JOB -- PROGRAM`; nothing here can run it");
  }
  if (spec.layers < 1 || spec.hidden < 1 || spec.heads < 1 || spec.ffn < 1 || spec.vocab < 1 ||
      spec.context < 1) {
    return fail(Code::kInvalid, "a transformer needs at least one of everything it is made of");
  }
  QD_RETURN_IF_ERROR(check_heads(spec));
  if (share.degree > std::min({spec.heads, spec.ffn, spec.vocab})) {
    return fail(Code::kInvalid, "the tensor axis has " + std::to_string(share.degree) +
                                    " ranks, more than heads, columns or words to share");
  }
  auto state = std::make_unique<State>();
  state->spec = spec;
  state->parameters = declare(spec, share);
  const std::span<const Parameter> parameters = state->parameters;
  QD_RETURN_IF_ERROR(internal::check_placements(spec, share, parameters));
  const ModelSpec own = block_spec(spec, share);
  state->layers.push_back(std::make_unique<internal::EmbeddingLayer>(spec, parameters));
  for (std::int64_t layer = 1; layer <= spec.layers; ++layer) {
    state->layers.push_back(std::make_unique<internal::BlockLayer>(own, layer, parameters));
  }
  state->layers.push_back(std::make_unique<internal::HeadLayer>(spec, parameters));
  return std::unique_ptr<Transformer>(new Transformer(std::move(state)));
}

const ModelSpec& Transformer::spec() const { return state_->spec; }
std::int64_t Transformer::layers() const {
  return static_cast<std::int64_t>(state_->layers.size());
}
std::vector<Parameter>& Transformer::parameters() { return state_->parameters; }
const std::vector<Parameter>& Transformer::parameters() const { return state_->parameters; }

std::vector<int> Transformer::backward_order() const {
  std::vector<int> order;
  for (auto layer = state_->layers.rbegin(); layer != state_->layers.rend(); ++layer) {
    const std::vector<int> part = (*layer)->backward_order();
    order.insert(order.end(), part.begin(), part.end());
  }
  QD_CHECK(order.size() == state_->parameters.size());
  return order;
}

void Transformer::initialise(Stream& stream, std::uint64_t seed) {
  for (const Parameter& parameter : state_->parameters) {
    if (parameter.value.empty()) continue;
    const ParameterShape& shape = parameter.shape;
    if (shape.initial_deviation <= 0) {
      kernels::fill(stream, parameter.value, static_cast<float>(shape.initial_constant));
      continue;
    }
    const RandomStream random(seed, RandomPurpose::kInitialise, stable_id(shape.name));
    const auto deviation = static_cast<float>(shape.initial_deviation);
    std::int64_t done = 0;
    for (const RunBlock& block : parameter.piece.blocks()) {
      kernels::fill_normal(stream, random, deviation, parameter.value.flat(done, block.elements()),
                           {.first = block.first, .length = block.length, .stride = block.stride});
      done += block.elements();
    }
  }
}

Result<void> Transformer::forward(std::int64_t layer, LayerContext& context) {
  QD_CHECK(layer >= 0 && layer < layers());
  return state_->layers[static_cast<std::size_t>(layer)]->forward(context);
}

Result<void> Transformer::backward(std::int64_t layer, LayerContext& context) {
  QD_CHECK(layer >= 0 && layer < layers());
  QD_CHECK(context.training);
  return state_->layers[static_cast<std::size_t>(layer)]->backward(context);
}

}  // namespace quadrille
