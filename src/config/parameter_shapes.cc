// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "quadrille/base/check.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

constexpr double kDeviation = 0.02;

// Collects a layer's parameters; biases only where the model has them.
class Collector {
 public:
  explicit Collector(const ModelSpec& model) : model_(model) {}

  void start_layer(std::int64_t layer, std::string prefix) {
    layer_ = layer;
    prefix_ = std::move(prefix);
  }

  void embedding(const std::string& name, std::int64_t rows, bool in_product) {
    add({.name = name,
         .shape = {rows, model_.hidden},
         .decayed = true,
         .in_product = in_product,
         .initial_deviation = kDeviation});
  }

  void norm(const std::string& name) {
    add({.name = name + ".weight", .shape = {model_.hidden}, .initial_constant = 1});
    if (model_.bias) add({.name = name + ".bias", .shape = {model_.hidden}});
  }

  void linear(const std::string& name, std::int64_t out, std::int64_t in, double deviation) {
    add({.name = name + ".weight",
         .shape = {out, in},
         .decayed = true,
         .in_product = true,
         .initial_deviation = deviation});
    if (model_.bias) add({.name = name + ".bias", .shape = {out}});
  }

  [[nodiscard]] std::vector<ParameterShape> take() { return std::move(shapes_); }

 private:
  void add(ParameterShape shape) {
    shape.layer = layer_;
    shape.name = prefix_ + shape.name;
    shapes_.push_back(std::move(shape));
  }

  const ModelSpec& model_;
  std::int64_t layer_ = 0;
  std::string prefix_;
  std::vector<ParameterShape> shapes_;
};

// a*b + c, or nothing where that or one of them does not exist.
std::optional<std::int64_t> multiply_add(std::optional<std::int64_t> a, std::int64_t b,
                                         std::optional<std::int64_t> c) {
  if (!a || !c) return std::nullopt;
  const auto product = checked_multiply(*a, b);
  return product ? checked_add(*product, *c) : std::nullopt;
}

}  // namespace

std::int64_t ParameterShape::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    const auto product = checked_multiply(count, extent);
    QD_CHECK(product.has_value());
    count = *product;
  }
  return count;
}

namespace {

// Each block adds two projections to the residual stream; this keeps its variance from growing with
// depth. Source: Radford et al. 2019, GPT-2, section 2.3.
double residual_deviation(const ModelSpec& model) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(model.layers));
}

std::vector<ParameterShape> gpt2_shapes(const ModelSpec& model) {
  const std::int64_t hidden = model.hidden;
  const double residual = residual_deviation(model);
  Collector collector(model);
  collector.embedding("wte.weight", model.vocab, model.tie_embeddings);
  collector.embedding("wpe.weight", model.context, false);
  for (std::int64_t block = 0; block < model.layers; ++block) {
    collector.start_layer(block + 1, "h." + std::to_string(block) + ".");
    collector.norm("ln_1");
    collector.linear("attn.c_attn", 3 * hidden, hidden, kDeviation);
    collector.linear("attn.c_proj", hidden, hidden, residual);
    collector.norm("ln_2");
    collector.linear("mlp.c_fc", model.ffn, hidden, kDeviation);
    collector.linear("mlp.c_proj", hidden, model.ffn, residual);
  }
  collector.start_layer(model.layers + 1, "");
  collector.norm("ln_f");
  if (!model.tie_embeddings) collector.embedding("lm_head.weight", model.vocab, true);
  return collector.take();
}

std::vector<ParameterShape> llama_shapes(const ModelSpec& model) {
  QD_CHECK(!model.bias);
  const std::int64_t hidden = model.hidden;
  const std::int64_t queries = model.query_columns();
  const std::int64_t keys = model.kv_columns();
  const double residual = residual_deviation(model);
  Collector collector(model);
  collector.embedding("model.embed_tokens.weight", model.vocab, model.tie_embeddings);
  for (std::int64_t block = 0; block < model.layers; ++block) {
    collector.start_layer(block + 1, "model.layers." + std::to_string(block) + ".");
    collector.norm("input_layernorm");
    collector.linear("self_attn.q_proj", queries, hidden, kDeviation);
    collector.linear("self_attn.k_proj", keys, hidden, kDeviation);
    collector.linear("self_attn.v_proj", keys, hidden, kDeviation);
    collector.linear("self_attn.o_proj", hidden, queries, residual);
    collector.norm("post_attention_layernorm");
    collector.linear("mlp.gate_proj", model.ffn, hidden, kDeviation);
    collector.linear("mlp.up_proj", model.ffn, hidden, kDeviation);
    collector.linear("mlp.down_proj", hidden, model.ffn, residual);
  }
  collector.start_layer(model.layers + 1, "");
  collector.norm("model.norm");
  if (!model.tie_embeddings) collector.embedding("lm_head.weight", model.vocab, true);
  return collector.take();
}

// The head's and all embeddings' rows of H numbers, and the final norm's.
std::optional<std::int64_t> whole_count(const ModelSpec& model, std::optional<std::int64_t> block) {
  const bool learned_positions = model.family == ModelFamily::kGpt2;
  const auto rows = multiply_add(model.vocab, model.tie_embeddings ? 1 : 2,
                                 learned_positions ? model.context : 0);
  const auto final_norm = multiply_add(rows, 1, model.bias ? 2 : 1);
  return multiply_add(block, model.layers, multiply_add(final_norm, model.hidden, 0));
}

}  // namespace

std::vector<ParameterShape> parameter_shapes(const ModelSpec& model) {
  QD_CHECK(model.is_custom() || (model.layers > 0 && model.hidden > 0));
  switch (model.family) {
    case ModelFamily::kGpt2:
      return gpt2_shapes(model);
    case ModelFamily::kLlama:
      return llama_shapes(model);
    case ModelFamily::kCustom:
      return {};
  }
  QD_CHECK(false);
  return {};
}

std::optional<std::int64_t> checked_parameter_count(const ModelSpec& model) {
  if (model.is_custom()) return 0;
  if (model.family == ModelFamily::kLlama) {
    // A block: two norms, q and o [H, AD], k and v [H, KD], gate, up and down [H, F]. Written as
    // H * (2AD + 2KD + 3F + 2).
    const auto projections = multiply_add(checked_multiply(model.heads, model.head_width()), 2,
                                          checked_multiply(model.ffn, 3));
    const auto cached = checked_multiply(model.key_value_heads(), model.head_width());
    const auto columns = multiply_add(cached, 2, projections);
    return whole_count(model, multiply_add(multiply_add(columns, 1, 2), model.hidden, 0));
  }
  // A block: two norms, qkv [3H, H], projection [H, H], [F, H] and [H, F], and their biases
  // (3H + H + F + H and 2H of the norms). Written as H * (4H + 2F + ...) + F.
  const auto matrices = multiply_add(model.hidden, 4, checked_multiply(model.ffn, 2));
  const auto per_hidden = multiply_add(matrices, 1, model.bias ? 9 : 2);
  return whole_count(model, multiply_add(per_hidden, model.hidden, model.bias ? model.ffn : 0));
}

std::int64_t parameter_count(const ModelSpec& model) {
  const auto count = checked_parameter_count(model);
  QD_CHECK(count.has_value());
  return *count;
}

Flops model_flops_per_token(const ModelSpec& model, std::int64_t sequence) {
  std::int64_t multiplied = 0;
  for (const ParameterShape& parameter : parameter_shapes(model)) {
    if (parameter.in_product && parameter.shape.size() == 2) multiplied += parameter.elements();
  }
  const double attention = 6.0 * static_cast<double>(model.layers) *
                           static_cast<double>(model.query_columns()) *
                           static_cast<double>(sequence + 1);
  return Flops(6.0 * static_cast<double>(multiplied) + attention);
}

}  // namespace quadrille
