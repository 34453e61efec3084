// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/model_shapes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace quadrille {
namespace {

ModelSpec gpt2_small() {
  return {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072, .vocab = 50257, .context = 1024};
}

ModelSpec tiny_llama() {  // TinyLlama 1.1B
  return {.family = ModelFamily::kLlama,
          .layers = 22,
          .hidden = 2048,
          .heads = 32,
          .kv_heads = 4,
          .ffn = 5632,
          .vocab = 32'000,
          .context = 2048,
          .tie_embeddings = false,
          .bias = false};
}

ModelSpec odd_llama(bool tied) {
  return {.family = ModelFamily::kLlama,
          .layers = 3,
          .hidden = 10,
          .heads = 6,
          .kv_heads = 2,
          .head_dimension = 4,  // 6 * 4 is not the hidden width
          .ffn = 23,
          .vocab = 29,
          .context = 7,
          .tie_embeddings = tied,
          .bias = false};
}

TEST(ModelShapes, CountTheParametersOfGpt2AsPublished) {
  // Hugging Face's gpt2 has 124,439,808 parameters.
  EXPECT_EQ(parameter_count(gpt2_small()), 124'439'808);
}

TEST(ModelShapes, CountTheParametersOfLlamasAsPublished) {
  EXPECT_EQ(parameter_count(tiny_llama()), 1'100'048'384);
  ModelSpec llama_2_7b = tiny_llama();
  llama_2_7b.layers = 32;
  llama_2_7b.hidden = 4096;
  llama_2_7b.kv_heads = 0;  // as many as heads
  llama_2_7b.ffn = 11'008;
  EXPECT_EQ(parameter_count(llama_2_7b), 6'738'415'616);
  ModelSpec llama_3_2_1b = tiny_llama();
  llama_3_2_1b.layers = 16;
  llama_3_2_1b.kv_heads = 8;
  llama_3_2_1b.ffn = 8192;
  llama_3_2_1b.vocab = 128'256;
  llama_3_2_1b.tie_embeddings = true;
  EXPECT_EQ(parameter_count(llama_3_2_1b), 1'235'814'400);
}

TEST(ModelShapes, TheClosedCountIsTheSumOfTheShapes) {
  for (const bool tied : {true, false}) {
    std::int64_t sum = 0;
    for (const ParameterShape& shape : parameter_shapes(odd_llama(tied))) sum += shape.elements();
    EXPECT_EQ(parameter_count(odd_llama(tied)), sum) << tied;
  }
  for (const bool tied : {true, false}) {
    for (const bool bias : {true, false}) {
      const ModelSpec model{.layers = 3,
                            .hidden = 10,
                            .heads = 2,
                            .ffn = 23,
                            .vocab = 29,
                            .context = 7,
                            .tie_embeddings = tied,
                            .bias = bias};
      std::int64_t sum = 0;
      for (const ParameterShape& parameter : parameter_shapes(model)) sum += parameter.elements();
      EXPECT_EQ(parameter_count(model), sum) << tied << bias;
    }
  }
}

TEST(ModelShapes, ACountThatOverflowsIsNothing) {
  ModelSpec model = gpt2_small();
  model.layers = 10'000'000'000'000;
  EXPECT_EQ(checked_parameter_count(model), std::nullopt);
  model = gpt2_small();
  model.hidden = std::int64_t{1} << 40;
  EXPECT_EQ(checked_parameter_count(model), std::nullopt);
  model = gpt2_small();
  model.vocab = INT64_MAX;
  EXPECT_EQ(checked_parameter_count(model), std::nullopt);
  model = tiny_llama();
  model.ffn = INT64_MAX / 3;
  EXPECT_EQ(checked_parameter_count(model), std::nullopt);
  model = tiny_llama();
  model.head_dimension = INT64_MAX / 16;
  EXPECT_EQ(checked_parameter_count(model), std::nullopt);
}

TEST(ModelShapes, NamesAreUniqueAndLayersNeverGoBack) {
  ModelSpec model = gpt2_small();
  model.tie_embeddings = false;
  std::set<std::string> names;
  std::int64_t layer = 0;
  for (const ParameterShape& parameter : parameter_shapes(model)) {
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    EXPECT_GE(parameter.layer, layer);
    layer = parameter.layer;
    ASSERT_LT(layer, layer_count(model));
  }
  EXPECT_EQ(layer, layer_count(model) - 1);
  for (const char* name : {"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.11.attn.c_attn.bias",
                           "h.3.attn.c_proj.weight", "h.3.mlp.c_fc.weight", "h.3.mlp.c_proj.bias",
                           "ln_f.bias", "lm_head.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(ModelShapes, NameALlamasParametersAsHuggingFaceDoes) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const ParameterShape& shape : parameter_shapes(odd_llama(false))) {
    shapes[shape.name] = shape.shape;
  }
  using Extents = std::vector<std::int64_t>;
  EXPECT_EQ(shapes.size(), 1U + 3 * 9 + 2);
  EXPECT_EQ(shapes["model.embed_tokens.weight"], (Extents{29, 10}));
  EXPECT_EQ(shapes["model.layers.0.input_layernorm.weight"], (Extents{10}));
  EXPECT_EQ(shapes["model.layers.1.self_attn.q_proj.weight"], (Extents{24, 10}));
  EXPECT_EQ(shapes["model.layers.1.self_attn.k_proj.weight"], (Extents{8, 10}));
  EXPECT_EQ(shapes["model.layers.1.self_attn.v_proj.weight"], (Extents{8, 10}));
  EXPECT_EQ(shapes["model.layers.1.self_attn.o_proj.weight"], (Extents{10, 24}));
  EXPECT_EQ(shapes["model.layers.2.post_attention_layernorm.weight"], (Extents{10}));
  EXPECT_EQ(shapes["model.layers.2.mlp.gate_proj.weight"], (Extents{23, 10}));
  EXPECT_EQ(shapes["model.layers.2.mlp.up_proj.weight"], (Extents{23, 10}));
  EXPECT_EQ(shapes["model.layers.2.mlp.down_proj.weight"], (Extents{10, 23}));
  EXPECT_EQ(shapes["model.norm.weight"], (Extents{10}));
  EXPECT_EQ(shapes["lm_head.weight"], (Extents{29, 10}));
}

TEST(ModelShapes, InitialiseAndDecayAsGpt2Does) {
  const ModelSpec model = gpt2_small();
  std::map<std::string, ParameterShape> by_name;
  for (const ParameterShape& parameter : parameter_shapes(model))
    by_name[parameter.name] = parameter;
  EXPECT_DOUBLE_EQ(by_name["wte.weight"].initial_deviation, 0.02);
  EXPECT_DOUBLE_EQ(by_name["h.5.attn.c_attn.weight"].initial_deviation, 0.02);
  const double residual = 0.02 / std::sqrt(2.0 * 12);
  EXPECT_DOUBLE_EQ(by_name["h.5.attn.c_proj.weight"].initial_deviation, residual);
  EXPECT_DOUBLE_EQ(by_name["h.5.mlp.c_proj.weight"].initial_deviation, residual);
  for (const auto& [name, parameter] : by_name) {
    const bool vector = parameter.shape.size() == 1;
    EXPECT_EQ(parameter.decayed, !vector) << name;
    if (!vector) continue;
    EXPECT_EQ(parameter.initial_deviation, 0) << name;
    EXPECT_EQ(parameter.initial_constant,
              name.find("ln_") != std::string::npos && name.ends_with("weight") ? 1 : 0)
        << name;
  }
}

TEST(ModelShapes, FlopsCountEachProductOnceAndAttentionOnce) {
  const std::int64_t layers = 2, hidden = 8, ffn = 20, vocab = 11, sequence = 5;
  for (const bool tied : {true, false}) {
    const ModelSpec model{.layers = layers,
                          .hidden = hidden,
                          .heads = 2,
                          .ffn = ffn,
                          .vocab = vocab,
                          .context = 9,
                          .tie_embeddings = tied};
    // Forward multiply-adds of a whole sequence: the linear layers and the head once a token (also
    // where the head is the embedding), scores and values once for each of T(T+1)/2 pairs.
    const std::int64_t linear = layers * (4 * hidden * hidden + 2 * hidden * ffn) + hidden * vocab;
    const std::int64_t pairs = sequence * (sequence + 1) / 2;
    const std::int64_t forward = 2 * linear * sequence + layers * pairs * 2 * 2 * hidden;
    // Backward costs twice the forward.
    EXPECT_DOUBLE_EQ(model_flops_per_token(model, sequence).count(),
                     3.0 * static_cast<double>(forward) / static_cast<double>(sequence));
  }
}

TEST(ModelShapes, FlopsOfALlamaCountSharedKeysOnceInProductsAndAllHeadsInAttention) {
  const std::int64_t sequence = 5;
  const ModelSpec model = odd_llama(true);
  const std::int64_t block = 10 * (24 + 8 + 8 + 24) + 3 * 10 * 23;
  const std::int64_t products = 3 * block + 10 * 29;
  const std::int64_t pairs = sequence * (sequence + 1) / 2;
  const std::int64_t forward = 2 * products * sequence + 3 * pairs * 2 * 2 * 24;
  EXPECT_DOUBLE_EQ(model_flops_per_token(model, sequence).count(),
                   3.0 * static_cast<double>(forward) / static_cast<double>(sequence));
}

}  // namespace
}  // namespace quadrille
