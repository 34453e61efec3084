// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "quadrille/base/check.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

constexpr double kDeviation = 0.02;

// Collects a layer's parameters; biases only where the model has them. Values are whole on every
// rank of the data axis and their gradients are summed over it. On the tensor axis:
//   column linear   weight sharded(0), bias sharded(0): a rank has its outputs
//   row linear      weight sharded(1), bias whole: a rank has its inputs, outputs are summed
//   embedding       sharded(0): a rank has its words
//   norm, positions whole; with `sequence` a norm sees only the rank's rows, so its gradient is
//                   partial (positions see the gathered rows)
//   keys and values whole and their gradients partial where there are too few heads for all ranks
class Collector {
 public:
  Collector(const ModelSpec& model, const TensorShare& share) : model_(model), share_(share) {}

  void start_layer(std::int64_t layer, std::string prefix) {
    layer_ = layer;
    prefix_ = std::move(prefix);
  }

  void embedding(const std::string& name, bool in_product) {
    add({.name = name,
         .shape = {model_.vocab, model_.hidden},
         .decayed = true,
         .in_product = in_product,
         .initial_deviation = kDeviation},
        AxisPlacement::sharded(0));
  }

  void positions(const std::string& name) {
    add({.name = name,
         .shape = {model_.context, model_.hidden},
         .decayed = true,
         .initial_deviation = kDeviation},
        AxisPlacement::replicated());
  }

  void norm(const std::string& name) {
    owed_ = share_.shares_rows();
    add({.name = name + ".weight", .shape = {model_.hidden}, .initial_constant = 1},
        AxisPlacement::replicated());
    if (model_.bias) {
      add({.name = name + ".bias", .shape = {model_.hidden}}, AxisPlacement::replicated());
    }
    owed_ = false;
  }

  struct Widths {
    std::int64_t out;
    std::int64_t in;
  };
  void column_linear(const std::string& name, Widths widths, Cut cut = {}) {
    linear(name, widths, AxisPlacement::sharded(0, cut), AxisPlacement::sharded(0, cut));
  }
  void row_linear(const std::string& name, Widths widths, double deviation, Cut cut = {}) {
    deviation_ = deviation;
    linear(name, widths, AxisPlacement::sharded(1, cut), AxisPlacement::replicated());
    deviation_ = kDeviation;
  }
  /// Keys or values of all heads, or of those that this rank needs.
  void kv_linear(const std::string& name, Widths widths) {
    if (shares_kv_heads(model_, share_)) {
      return column_linear(name, widths, {.parts = 1, .groups = 0, .unit = model_.head_width()});
    }
    owed_ = true;
    linear(name, widths, AxisPlacement::replicated(), AxisPlacement::replicated());
    owed_ = false;
  }

  [[nodiscard]] std::vector<ParameterShape> take() { return std::move(shapes_); }

 private:
  void linear(const std::string& name, Widths widths, AxisPlacement weight, AxisPlacement bias) {
    add({.name = name + ".weight",
         .shape = {widths.out, widths.in},
         .decayed = true,
         .in_product = true,
         .initial_deviation = deviation_},
        weight);
    if (model_.bias) add({.name = name + ".bias", .shape = {widths.out}}, bias);
  }

  void add(ParameterShape shape, AxisPlacement tensor) {
    shape.layer = layer_;
    shape.name = prefix_ + shape.name;
    if (share_.degree > 1) shape.placement = Placement().with(Axis::kTensor, tensor);
    shape.gradient_placement = shape.placement.with(Axis::kData, AxisPlacement::partial());
    if (owed_) {
      shape.gradient_placement =
          shape.gradient_placement.with(Axis::kTensor, AxisPlacement::partial());
    }
    shapes_.push_back(std::move(shape));
  }

  const ModelSpec& model_;
  TensorShare share_;
  std::int64_t layer_ = 0;
  std::string prefix_;
  double deviation_ = kDeviation;
  bool owed_ = false;  ///< Gradients are sums over the tensor axis.
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

TensorPiece ParameterShape::piece(const TensorShare& share) const {
  return TensorPiece::of(shape, placement.on(Axis::kTensor), share.index, share.degree);
}

namespace {

// Each block adds two projections to the residual stream; this keeps its variance from growing with
// depth. Source: Radford et al. 2019, GPT-2, section 2.3.
double residual_deviation(const ModelSpec& model) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(model.layers));
}

std::vector<ParameterShape> gpt2_shapes(const ModelSpec& model, const TensorShare& share) {
  const std::int64_t hidden = model.hidden;
  const double residual = residual_deviation(model);
  const Cut packed{.parts = 3, .groups = 0, .unit = model.head_width()};
  Collector collector(model, share);
  collector.embedding("wte.weight", model.tie_embeddings);
  collector.positions("wpe.weight");
  for (std::int64_t block = 0; block < model.layers; ++block) {
    collector.start_layer(block + 1, "h." + std::to_string(block) + ".");
    collector.norm("ln_1");
    collector.column_linear("attn.c_attn", {3 * hidden, hidden}, packed);
    collector.row_linear("attn.c_proj", {hidden, hidden}, residual, query_cut(model));
    collector.norm("ln_2");
    collector.column_linear("mlp.c_fc", {model.ffn, hidden});
    collector.row_linear("mlp.c_proj", {hidden, model.ffn}, residual);
  }
  collector.start_layer(model.layers + 1, "");
  collector.norm("ln_f");
  if (!model.tie_embeddings) collector.embedding("lm_head.weight", true);
  return collector.take();
}

std::vector<ParameterShape> llama_shapes(const ModelSpec& model, const TensorShare& share) {
  QD_CHECK(!model.bias);
  const std::int64_t hidden = model.hidden;
  const std::int64_t queries = model.query_columns();
  const std::int64_t keys = model.kv_columns();
  const double residual = residual_deviation(model);
  Collector collector(model, share);
  collector.embedding("model.embed_tokens.weight", model.tie_embeddings);
  for (std::int64_t block = 0; block < model.layers; ++block) {
    collector.start_layer(block + 1, "model.layers." + std::to_string(block) + ".");
    collector.norm("input_layernorm");
    collector.column_linear("self_attn.q_proj", {queries, hidden}, query_cut(model));
    collector.kv_linear("self_attn.k_proj", {keys, hidden});
    collector.kv_linear("self_attn.v_proj", {keys, hidden});
    collector.row_linear("self_attn.o_proj", {hidden, queries}, residual, query_cut(model));
    collector.norm("post_attention_layernorm");
    collector.column_linear("mlp.gate_proj", {model.ffn, hidden});
    collector.column_linear("mlp.up_proj", {model.ffn, hidden});
    collector.row_linear("mlp.down_proj", {hidden, model.ffn}, residual);
  }
  collector.start_layer(model.layers + 1, "");
  collector.norm("model.norm");
  if (!model.tie_embeddings) collector.embedding("lm_head.weight", true);
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

std::vector<ParameterShape> parameter_shapes(const ModelSpec& model, const TensorShare& share) {
  QD_CHECK(model.is_custom() || (model.layers > 0 && model.hidden > 0));
  switch (model.family) {
    case ModelFamily::kGpt2:
      return gpt2_shapes(model, share);
    case ModelFamily::kLlama:
      return llama_shapes(model, share);
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
