// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/model_harness.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/kernels/head_loss.h"
#include "quadrille/kernels/rounding.h"

namespace quadrille {
namespace {

ModelSpec gpt2_small() {
  ModelSpec spec;
  spec.layers = 12;
  spec.hidden = 768;
  spec.heads = 12;
  spec.ffn = 3072;
  spec.vocab = 50257;
  spec.context = 1024;
  return spec;
}

std::map<ActivationLife, std::int64_t> bytes_of_block(const ModelSpec& spec, BatchShape batch) {
  std::map<ActivationLife, std::int64_t> bytes;
  for (const auto& shape : activation_shapes(spec, batch)) {
    if (shape.layer == 1) bytes[shape.life] += shape.bytes().count();
  }
  return bytes;
}

TEST(ActivationShapes, ABlockKeepsFortyHPlusFourAPlusSixteenBytesAToken) {
  const ModelSpec spec = gpt2_small();
  const auto bytes = bytes_of_block(spec, {.micro_batch = 3, .sequence = 100});
  const std::int64_t h = spec.hidden;
  // The block's own 40H + 4A + 16 includes its output, which lives longer.
  const std::int64_t kept = bytes.at(ActivationLife::kSaved) + bytes.at(ActivationLife::kOutput);
  EXPECT_EQ(kept, 300 * (40 * h + 4 * spec.heads + 16));
}

TEST(ActivationShapes, ALlamaKeepsItsFewerKeysAndBothHalvesOfItsGate) {
  ModelSpec spec = gpt2_small();
  spec.family = ModelFamily::kLlama;
  spec.kv_heads = 4;
  spec.ffn = 2048;
  const auto bytes = bytes_of_block(spec, {.micro_batch = 3, .sequence = 100});
  // Queries 12 * 64, keys and values 4 * 64 each, attention, middle and output of 768, gate and up,
  // log-sum-exp, and no means beside the two norms' reciprocal deviations.
  const std::int64_t floats = 768 + 2 * 256 + 3 * 768 + 2 * 2048 + 12 + 2;
  EXPECT_EQ(bytes.at(ActivationLife::kSaved) + bytes.at(ActivationLife::kOutput), 300 * 4 * floats);
}

TEST(ActivationShapes, MemoryIsLinearInTheSequence) {
  const ModelSpec spec = gpt2_small();
  for (const std::int64_t length : {64, 333}) {
    const auto once = bytes_of_block(spec, {.micro_batch = 2, .sequence = length});
    const auto twice = bytes_of_block(spec, {.micro_batch = 2, .sequence = 2 * length});
    for (const auto& [life, bytes] : once) EXPECT_EQ(twice.at(life), 2 * bytes);
  }
}

TEST(ActivationShapes, TheHeadHoldsOneChunkOfLogitsAsItsKernelCutsThem) {
  for (const std::int64_t vocab : {1, 11, 256, 50257, 200000}) {
    for (const std::int64_t rows : {1, 15, 64, 8192}) {
      ModelSpec spec = testing::odd_model();
      spec.vocab = vocab;
      for (const auto& shape : activation_shapes(spec, {.micro_batch = 1, .sequence = rows})) {
        if (shape.name != "logits") continue;
        const std::vector<std::int64_t> expected = {kernels::head_loss_chunk(rows, vocab), vocab};
        EXPECT_EQ(shape.shape, expected) << vocab << " x " << rows;
      }
    }
  }
}

/// A product refuses less than it needs (so the model's tests in bf16 hold the blocks to it); here
/// the head, at rows and vocabularies that are cut into chunks and that are not.
TEST(ActivationShapes, RoundingScratchServesTheHeadAndTheLargestProductOfABlock) {
  ModelSpec spec = testing::odd_model();
  for (const std::int64_t vocab : {1, 11, 256, 50257}) {
    for (const std::int64_t rows : {1, 15, 64, 8192}) {
      spec.vocab = vocab;
      const auto padded = [](std::int64_t elements) {
        return kernels::rounding_elements(elements);
      };
      const std::int64_t h = spec.hidden;
      const std::int64_t f = spec.ffn;
      // Forward of the MLP's second half, and the gradient of a weight [F, H] or [H, F].
      const std::int64_t block =
          std::max(padded(rows * f) + padded(h * f), padded(rows * f) + padded(rows * h));
      const std::int64_t qkv = std::max(padded(rows * 3 * h) + padded(3 * h * h),
                                        padded(rows * 3 * h) + padded(rows * h));
      const std::int64_t head = kernels::head_loss_rounding(rows, vocab, h);
      EXPECT_EQ(rounding_scratch(spec, {.micro_batch = 1, .sequence = rows}),
                std::max({block, qkv, head}))
          << vocab << " x " << rows;
    }
  }
}

TEST(ActivationShapes, NamesAreUniqueWithinALayerAndLayersComeInOrder) {
  for (const ModelSpec& spec : {testing::odd_model(), testing::odd_llama()}) {
    std::set<std::pair<std::int64_t, std::string>> seen;
    std::int64_t layer = 0;
    for (const auto& shape : activation_shapes(spec, {.micro_batch = 2, .sequence = 5})) {
      EXPECT_TRUE(seen.insert({shape.layer, shape.name}).second) << shape.name;
      EXPECT_GE(shape.layer, layer);
      layer = shape.layer;
    }
    EXPECT_EQ(layer, layer_count(spec) - 1);
  }
}

}  // namespace
}  // namespace quadrille
