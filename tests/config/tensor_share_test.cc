// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/tensor_share.h"

#include <gtest/gtest.h>

#include <map>

#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

/// Nothing in it divides by 2 or 3 but the heads by 2.
ModelSpec llama(std::int64_t kv_heads) {
  return {.family = ModelFamily::kLlama,
          .layers = 2,
          .hidden = 13,
          .heads = 4,
          .kv_heads = kv_heads,
          .head_dimension = 6,
          .ffn = 23,
          .vocab = 29,
          .context = 7,
          .tie_embeddings = false,
          .bias = false};
}

ModelSpec gpt2() {
  return {.layers = 2, .hidden = 20, .heads = 5, .ffn = 23, .vocab = 29, .context = 7};
}

TEST(TensorShare, EveryHeadIsOneRanks) {
  for (const std::int64_t kv : {1, 2, 4}) {
    const ModelSpec model = llama(kv);
    for (int degree = 1; degree <= 4; ++degree) {
      std::int64_t next = 0;
      for (int index = 0; index < degree; ++index) {
        const TensorShare share{degree, index};
        const Extent queries = query_heads(model, share);
        EXPECT_EQ(queries.first, next);
        EXPECT_GT(queries.length, 0);
        next += queries.length;
        // Attention on this rank: query head a uses key head a / (queries / keys).
        const Extent keys = kv_heads(model, share);
        ASSERT_EQ(queries.length % keys.length, 0);
        for (std::int64_t a = 0; a < queries.length; ++a) {
          const std::int64_t global = (queries.first + a) / (model.heads / kv);
          EXPECT_EQ(keys.first + a / (queries.length / keys.length), global);
        }
      }
      EXPECT_EQ(next, model.heads);
    }
  }
}

TEST(TensorShare, PiecesOfAllRanksCoverEveryParameterThatIsSharded) {
  for (const ModelSpec& model : {gpt2(), llama(2), llama(1)}) {
    for (const int degree : {2, 3, 4}) {
      for (const ParameterShape& parameter : parameter_shapes(model, {.degree = degree})) {
        std::int64_t elements = 0;
        for (int index = 0; index < degree; ++index) {
          elements += parameter.piece({degree, index}).elements();
        }
        const bool sharded = parameter.placement.on(Axis::kTensor).is_sharded();
        EXPECT_EQ(elements, parameter.elements() * (sharded ? 1 : degree)) << parameter.name;
      }
    }
  }
}

std::map<std::string, std::string> gradients_of(const ModelSpec& model, const TensorShare& share) {
  std::map<std::string, std::string> placements;
  for (const ParameterShape& parameter : parameter_shapes(model, share)) {
    placements[parameter.name] = parameter.gradient_placement.on(Axis::kTensor).to_text();
    EXPECT_TRUE(parameter.gradient_placement.on(Axis::kData).is_partial()) << parameter.name;
  }
  return placements;
}

TEST(TensorShare, GradientsAreOwedWhereARankSeesOnlyItsPart) {
  auto plain = gradients_of(gpt2(), {.degree = 2});
  EXPECT_EQ(plain["h.0.ln_1.weight"], "replicated");
  EXPECT_EQ(plain["h.0.attn.c_attn.weight"], "sharded(0, 3 parts)");
  EXPECT_EQ(plain["h.0.mlp.c_proj.weight"], "sharded(1)");
  EXPECT_EQ(plain["h.0.mlp.c_proj.bias"], "replicated");
  EXPECT_EQ(plain["wte.weight"], "sharded(0)");
  auto rows = gradients_of(gpt2(), {.degree = 2, .index = 0, .sequence = true});
  EXPECT_EQ(rows["h.0.ln_1.weight"], "partial");
  EXPECT_EQ(rows["ln_f.bias"], "partial");
  EXPECT_EQ(rows["wpe.weight"], "replicated");
  auto few_heads = gradients_of(llama(1), {.degree = 2});
  EXPECT_EQ(few_heads["model.layers.0.self_attn.k_proj.weight"], "partial");
  EXPECT_EQ(few_heads["model.layers.0.self_attn.q_proj.weight"], "sharded(0)");
}

TEST(TensorShare, ActivationsOfAllRanksAddUpToThoseOfOne) {
  const BatchShape batch{.micro_batch = 2, .sequence = 7};
  for (const ModelSpec& model : {gpt2(), llama(4)}) {
    for (const int degree : {2, 3}) {
      std::map<std::string, std::int64_t> rows;
      for (int index = 0; index < degree; ++index) {
        const TensorShare share{degree, index, true};
        for (const ActivationShape& shape : activation_shapes(model, batch, share)) {
          if (shape.layer == 1) rows[shape.name] += shape.bytes().count();
        }
      }
      for (const ActivationShape& shape : activation_shapes(model, batch)) {
        if (shape.layer != 1) continue;
        // Products see all rows of the width H, and `wide` is the larger of two of a rank's widths.
        const bool whole = shape.name == "branch" || shape.name == "narrow";
        if (shape.name == "wide") continue;
        EXPECT_EQ(rows[shape.name], shape.bytes().count() * (whole ? degree : 1)) << shape.name;
      }
    }
  }
}

}  // namespace
}  // namespace quadrille
