// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that share a model's matrices against one that has all of it: the loss, and every gradient
// put together from the ranks' pieces. Nothing divides: 5 heads, 23 columns and 29 words over 2 and
// 3 ranks, 14 rows. The harness poisons every activation that nobody may still read.

#include <gtest/gtest.h>

#include <mutex>

#include "model/model_harness.h"
#include "model/placement_checks.h"
#include "quadrille/comm/world.h"
#include "quadrille/model/parameter_memory.h"

namespace quadrille {
namespace {

using testing::ModelHarness;
using testing::NamedValues;
using testing::random_batch;
using testing::ReferenceBatch;
using testing::Values;

ModelSpec uneven_gpt2(bool tied) {
  return {.layers = 2,
          .hidden = 20,
          .heads = 5,
          .ffn = 23,
          .vocab = 29,
          .context = 9,
          .tie_embeddings = tied,
          .dropout = 0.2};
}

ModelSpec uneven_llama(std::int64_t kv_heads, bool tied) {
  return {.family = ModelFamily::kLlama,
          .layers = 2,
          .hidden = 13,
          .heads = 4,
          .kv_heads = kv_heads,
          .head_dimension = 6,
          .ffn = 23,
          .vocab = 29,
          .context = 9,
          .tie_embeddings = tied,
          .bias = false,
          .dropout = 0.1};
}

struct Outcome {
  std::vector<double> losses;  ///< Of each rank.
  NamedValues gradients;       ///< Of the whole.
};

/// Puts one rank's gradient into that of the whole.
void put(const Parameter& parameter, const Values& own, Values& whole) {
  whole.resize(static_cast<std::size_t>(parameter.shape.elements()));
  const AxisPlacement placement = parameter.shape.gradient_placement.on(Axis::kTensor);
  parameter.piece.for_each_run(
      [&](std::int64_t in_whole, std::int64_t in_piece, std::int64_t length) {
        for (std::int64_t i = 0; i < length; ++i) {
          float& target = whole[static_cast<std::size_t>(in_whole + i)];
          const float value = own[static_cast<std::size_t>(in_piece + i)];
          target = placement.is_partial() ? target + value : value;
        }
      });
}

/// Two micro-batches over `share.degree` ranks that are threads.
Outcome run_shared(const ModelHarness& whole, const ModelSpec& spec, BatchShape shape,
                   const std::vector<ReferenceBatch>& batches, TensorShare share) {
  Outcome outcome;
  std::mutex mutex;
  const auto done = run_threads(share.degree, {}, [&](World& world) -> Result<void> {
    TensorShare own = share;
    own.index = world.rank().value;
    ModelHarness harness(spec, shape, kernels::ProductPrecision::kFp32,
                         TensorGroup(world.whole(), own));
    harness.copy_values_from(whole);
    harness.begin_gradients();
    double loss = 0;
    bool first = true;
    for (const ReferenceBatch& batch : batches) {
      loss += harness.step(batch, first);
      first = false;
    }
    const std::lock_guard lock(mutex);
    outcome.losses.push_back(loss);
    for (const Parameter& parameter : harness.model().parameters()) {
      const std::string& name = parameter.shape.name;
      put(parameter, harness.gradient(name), outcome.gradients[name]);
    }
    return {};
  });
  EXPECT_TRUE(done) << done.error().to_text();
  return outcome;
}

double norm_of(const Values& values) {
  double sum = 0;
  for (const float value : values) sum += double(value) * double(value);
  return std::sqrt(sum);
}

void expect_equal_to_one_rank(const ModelSpec& spec, TensorShare share) {
  SCOPED_TRACE(std::to_string(share.degree) + " ranks" + (share.sequence ? ", rows shared" : ""));
  std::mt19937_64 random(5);
  const BatchShape shape{.micro_batch = 2, .sequence = 7};
  ModelHarness whole(spec, shape);
  whole.randomise(random);
  whole.begin_gradients();
  std::vector<ReferenceBatch> batches{random_batch(spec, shape, random),
                                      random_batch(spec, shape, random)};
  batches[1].global_sequences = {5, 9};
  double loss = whole.step(batches[0], true);
  loss += whole.step(batches[1]);
  const Outcome outcome = run_shared(whole, spec, shape, batches, share);
  for (const double shared : outcome.losses) {
    EXPECT_EQ(shared, outcome.losses[0]) << "ranks find the same loss, bit by bit";
    EXPECT_NEAR(shared, loss, 1e-5 * loss);
  }
  double total = 0;
  for (const auto& [name, gradient] : outcome.gradients) total += norm_of(gradient);
  for (const auto& [name, gradient] : outcome.gradients) {
    const Values expected = whole.gradient(name);
    ASSERT_EQ(gradient.size(), expected.size()) << name;
    Values difference = expected;
    for (std::size_t i = 0; i < expected.size(); ++i) difference[i] -= gradient[i];
    EXPECT_LE(norm_of(difference), 2e-5 * std::max(norm_of(expected), 1e-3 * total)) << name;
  }
}

TEST(TensorParallel, AGpt2OfAnyDegreeHasTheGradientsOfOneRank) {
  for (const int degree : {2, 3}) {
    for (const bool sequence : {false, true}) {
      expect_equal_to_one_rank(uneven_gpt2(degree == 2), {.degree = degree, .sequence = sequence});
    }
  }
}

TEST(TensorParallel, ALlamaHasThemWithManyKeyHeadsAndWithFewerThanRanks) {
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    for (const bool sequence : {false, true}) {
      expect_equal_to_one_rank(uneven_llama(kv_heads, kv_heads == 2),
                               {.degree = 3, .sequence = sequence});
    }
  }
  expect_equal_to_one_rank(uneven_llama(2, false), {.degree = 2, .sequence = true});
}

TEST(TensorParallel, ReplicatedGradientsAreTheSameBitsOnEveryRank) {
  const ModelSpec spec = uneven_gpt2(true);
  std::mutex mutex;
  std::map<std::string, std::vector<Values>> replicated;
  std::mt19937_64 random(6);
  const BatchShape shape{.micro_batch = 2, .sequence = 7};
  ModelHarness whole(spec, shape);
  whole.randomise(random);
  const ReferenceBatch batch = random_batch(spec, shape, random);
  const auto done = run_threads(3, {}, [&](World& world) -> Result<void> {
    const TensorShare share{.degree = 3, .index = world.rank().value};
    ModelHarness harness(spec, shape, kernels::ProductPrecision::kFp32,
                         TensorGroup(world.whole(), share));
    harness.copy_values_from(whole);
    harness.begin_gradients();
    static_cast<void>(harness.step(batch, true));
    const std::lock_guard lock(mutex);
    for (const Parameter& parameter : harness.model().parameters()) {
      const AxisPlacement on_axis = parameter.shape.gradient_placement.on(Axis::kTensor);
      if (on_axis != AxisPlacement::replicated()) continue;
      replicated[parameter.shape.name].push_back(harness.gradient(parameter.shape.name));
    }
    return {};
  });
  ASSERT_TRUE(done) << done.error().to_text();
  EXPECT_EQ(replicated.size(), 1U + 2 * 4 + 2 * 2 + 2);  // positions, norms, two biases a block
  for (const auto& [name, gradients] : replicated) {
    ASSERT_EQ(gradients.size(), 3U);
    EXPECT_EQ(gradients[1], gradients[0]) << name;
    EXPECT_EQ(gradients[2], gradients[0]) << name;
  }
}

TEST(TensorParallel, InitialValuesAreThoseOfOneRank) {
  const ModelSpec spec = uneven_llama(2, false);
  const BatchShape shape{.micro_batch = 1, .sequence = 7};
  ModelHarness whole(spec, shape);
  whole.model().initialise(whole.stream(), 42);
  for (const int degree : {2, 3}) {
    for (int index = 0; index < degree; ++index) {
      auto model = Transformer::create(spec, {.degree = degree, .index = index}).value();
      const Lease lease = bind_values(*model, whole.pool()).value();
      model->initialise(whole.stream(), 42);
      for (std::size_t p = 0; p < model->parameters().size(); ++p) {
        const Parameter& parameter = model->parameters()[p];
        const Values own = read_all<float>(whole.stream(), parameter.value).value();
        const Values all =
            read_all<float>(whole.stream(), whole.model().parameters()[p].value).value();
        parameter.piece.for_each_run(
            [&](std::int64_t in_whole, std::int64_t in_piece, std::int64_t length) {
              for (std::int64_t i = 0; i < length; ++i) {
                EXPECT_EQ(own[std::size_t(in_piece + i)], all[std::size_t(in_whole + i)])
                    << parameter.shape.name;
              }
            });
      }
    }
  }
}

/// What the checks say of a model with one parameter's placements replaced.
std::string refusal(const ModelSpec& spec, const std::string& name, AxisPlacement value,
                    AxisPlacement gradient, bool sequence = false) {
  const TensorShare share{.degree = 2, .index = 0, .sequence = sequence};
  auto model = Transformer::create(spec, share).value();
  std::vector<Parameter> parameters = model->parameters();
  for (Parameter& parameter : parameters) {
    if (parameter.shape.name != name) continue;
    parameter.shape.placement = parameter.shape.placement.with(Axis::kTensor, value);
    parameter.shape.gradient_placement =
        parameter.shape.gradient_placement.with(Axis::kTensor, gradient);
  }
  const auto checked = internal::check_placements(spec, share, parameters);
  return checked ? "" : checked.error().message;
}

TEST(PlacementChecks, RefuseOperandsThatDoNotMatchByTensorAndAxis) {
  const ModelSpec gpt2 = uneven_gpt2(true);
  const AxisPlacement whole = AxisPlacement::replicated();
  const AxisPlacement rows = AxisPlacement::sharded(0);
  const AxisPlacement columns = AxisPlacement::sharded(1);
  const AxisPlacement partial = AxisPlacement::partial();
  EXPECT_EQ(refusal(gpt2, "h.1.mlp.c_proj.weight", columns, columns), "");
  EXPECT_EQ(refusal(gpt2, "h.1.mlp.c_proj.weight", whole, whole),
            "h.1.mlp.c_proj.weight is replicated on the tensor axis, but this rank has only its "
            "own columns of the input");
  // A wrong axis, a bias added by every rank, a table that each rank would add whole.
  EXPECT_NE(refusal(gpt2, "h.0.mlp.c_fc.weight", columns, columns), "");
  EXPECT_NE(refusal(gpt2, "h.0.mlp.c_proj.bias", rows, rows), "");
  EXPECT_NE(refusal(gpt2, "h.0.mlp.c_fc.bias", whole, whole), "");
  EXPECT_NE(refusal(gpt2, "wte.weight", whole, whole), "");
  EXPECT_NE(refusal(gpt2, "h.0.attn.c_attn.weight", rows, rows), "") << "cut as one part";
  // A missing and a needless reduction.
  EXPECT_NE(refusal(gpt2, "h.0.ln_1.weight", whole, partial), "");
  EXPECT_EQ(refusal(gpt2, "h.0.ln_1.weight", whole, partial, true), "");
  EXPECT_EQ(refusal(gpt2, "ln_f.bias", whole, whole, true),
            "the gradient of ln_f.bias is replicated on the tensor axis, but backward makes it "
            "partial");
  const ModelSpec llama = uneven_llama(1, false);
  EXPECT_NE(refusal(llama, "model.layers.0.self_attn.k_proj.weight", whole, whole), "");
  EXPECT_EQ(refusal(llama, "model.layers.0.self_attn.k_proj.weight", whole, partial), "");
}

TEST(PlacementChecks, RefuseMoreRanksThanHeads) {
  const auto model = Transformer::create(uneven_gpt2(true), {.degree = 6});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace quadrille
