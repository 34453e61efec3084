// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/model/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "model/model_harness.h"

namespace quadrille {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::ModelHarness;
using testing::odd_llama;
using testing::odd_model;
using testing::random_batch;
using testing::ReferenceBatch;
using testing::ReferenceTransformer;
using testing::Values;

struct Variant {
  bool tied = true;
  bool bias = true;
  double dropout = 0;
  std::int64_t kv_heads = 0;  // Of a Llama with 4 heads; 0: a GPT-2.
  RopeScalingType scaling = RopeScalingType::kNone;
};

std::string name_of(const ::testing::TestParamInfo<Variant>& info) {
  const Variant& variant = info.param;
  std::string name = variant.kv_heads == 0 ? "Gpt2" : "Llama" + std::to_string(variant.kv_heads);
  name += variant.tied ? "Tied" : "Untied";
  if (variant.kv_heads == 0) name += variant.bias ? "Bias" : "NoBias";
  if (variant.dropout > 0) name += "Dropout";
  if (variant.scaling == RopeScalingType::kLinear) name += "Linear";
  if (variant.scaling == RopeScalingType::kLlama3) name += "Llama3";
  return name;
}

ModelSpec model_of(const Variant& variant) {
  ModelSpec spec = odd_model();
  if (variant.kv_heads > 0) {
    spec = odd_llama();
    spec.kv_heads = variant.kv_heads;
    // 3 positions of the first context: the pairs' 0.48, 0.15 and 0.05 turns in it lie above,
    // between and below the factors.
    spec.rope_scaling = {.type = variant.scaling,
                         .factor = 2.5,
                         .low_freq_factor = 0.1,
                         .high_freq_factor = 0.3,
                         .original_context = 3};
  }
  spec.tie_embeddings = variant.tied;
  spec.bias = variant.bias;
  spec.dropout = variant.dropout;
  return spec;
}

/// |actual - expected| <= tolerance * the largest expected element.
template <class Expected>
void expect_close(const Values& actual, const Expected& expected, double tolerance,
                  const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double most = 0;
  for (const auto value : expected) most = std::max(most, std::abs(double{value}));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * most) << name << "[" << i << "]";
  }
}

class TransformerVariants : public ::testing::TestWithParam<Variant> {};

TEST_P(TransformerVariants, LossAndEveryGradientMatchTheFloat64Reference) {
  const ModelSpec spec = model_of(GetParam());
  std::mt19937_64 random(std::random_device{}());
  ModelHarness harness(spec, {3, 5});
  harness.randomise(random);
  ReferenceBatch batch = random_batch(spec, {3, 5}, random);
  batch.global_sequences = {7, 2, 3};
  const double loss = harness.step(batch);
  ReferenceTransformer reference(spec, harness.values());
  const auto expected_loss = reference.loss_sum(batch);
  EXPECT_NEAR(loss / expected_loss.value(), 1, 1e-5);
  for (const auto& [name, expected] : reference.gradients(expected_loss)) {
    expect_close(harness.gradient(name), expected, 5e-5, name);
  }
}

TEST_P(TransformerVariants, EveryDeclaredContributionComesAndTheLastOnesFollowBackwardOrder) {
  const ModelSpec spec = model_of(GetParam());
  std::mt19937_64 random(std::random_device{}());
  ModelHarness harness(spec, {1, 3});
  harness.randomise(random);
  harness.step(random_batch(spec, {1, 3}, random));
  const std::vector<int>& made = harness.contributed();
  const auto& parameters = harness.model().parameters();
  std::vector<int> completed;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto later =
        std::count(made.begin() + static_cast<std::ptrdiff_t>(i) + 1, made.end(), made[i]);
    if (later == 0) completed.push_back(made[i]);
  }
  EXPECT_EQ(completed, harness.model().backward_order());
  EXPECT_EQ(completed, backward_order(harness.model().spec()));  // as it is planned
  for (const Parameter& parameter : harness.model().parameters()) {
    EXPECT_EQ(parameter.contributions,
              gradient_contributions(harness.model().spec(), parameter.shape));
  }
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const auto times = std::count(made.begin(), made.end(), static_cast<int>(index));
    EXPECT_EQ(times, parameters[index].contributions) << parameters[index].shape.name;
  }
}

/// Four sequences at once against one after the other, their slots out of order: sums of loss and
/// gradients must agree though masks, kernels' shapes and the order of additions differ.
TEST_P(TransformerVariants, AnySplitOfTheBatchGivesTheSameSums) {
  const ModelSpec spec = model_of(GetParam());
  std::mt19937_64 random(std::random_device{}());
  ReferenceBatch whole = random_batch(spec, {4, 5}, random);
  whole.global_sequences = {9, 4, 5, 0};
  ModelHarness at_once(spec, {4, 5});
  at_once.randomise(random);
  const double loss = at_once.step(whole);
  ModelHarness one_by_one(spec, {1, 5});
  one_by_one.copy_values_from(at_once);
  double sum = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    ReferenceBatch part = whole;
    part.tokens = {whole.tokens[row]};
    part.targets = {whole.targets[row]};
    part.global_sequences = {whole.global_sequences[row]};
    sum += one_by_one.step(part);
  }
  EXPECT_NEAR(sum / loss, 1, 1e-6);
  for (const auto& [name, values] : at_once.values()) {
    expect_close(one_by_one.gradient(name), at_once.gradient(name), 1e-5, name);
  }
}

TEST_P(TransformerVariants, AStepsFirstMicroBatchOverwritesAndTheOthersAdd) {
  const ModelSpec spec = model_of(GetParam());
  std::mt19937_64 random(std::random_device{}());
  const ReferenceBatch first = random_batch(spec, {2, 5}, random);
  const ReferenceBatch second = random_batch(spec, {2, 5}, random);
  ModelHarness from_zero(spec, {2, 5});
  from_zero.randomise(random);
  from_zero.step(first);
  from_zero.step(second);
  ModelHarness anew(spec, {2, 5});
  anew.copy_values_from(from_zero);
  anew.begin_gradients();
  anew.step(first, true);
  anew.step(second);
  for (const auto& [name, values] : anew.values()) {
    EXPECT_EQ(anew.gradient(name), from_zero.gradient(name)) << name;
  }
}

TEST_P(TransformerVariants, EvaluationDropsNothingAndTouchesNoGradient) {
  const ModelSpec spec = model_of(GetParam());
  std::mt19937_64 random(std::random_device{}());
  ModelHarness harness(spec, {2, 5});
  harness.randomise(random);
  ReferenceBatch batch = random_batch(spec, {2, 5}, random);
  batch.training = false;
  const double loss = harness.step(batch);
  ReferenceTransformer reference(spec, harness.values());
  EXPECT_NEAR(loss / reference.loss_sum(batch).value(), 1, 1e-5);
  EXPECT_TRUE(harness.contributed().empty());
  for (const auto& [name, values] : harness.values()) {
    EXPECT_THAT(harness.gradient(name), Each(0.0F)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Transformer, TransformerVariants,
                         ::testing::Values(Variant{true, true, 0}, Variant{true, true, 0.3},
                                           Variant{true, false, 0}, Variant{false, true, 0},
                                           Variant{false, false, 0.1}, Variant{false, false, 0, 1},
                                           Variant{true, false, 0, 2, RopeScalingType::kLlama3},
                                           Variant{false, false, 0.2, 2, RopeScalingType::kLinear},
                                           Variant{true, false, 0, 4}),
                         name_of);

TEST(Transformer, SequencesShorterThanTheContextAndOfOneTokenAreExact) {
  std::mt19937_64 random(std::random_device{}());
  for (const ModelSpec& spec : {odd_model(), odd_llama()}) {
    for (const std::int64_t length : {1, 2, 7}) {
      ModelHarness harness(spec, {2, length});
      harness.randomise(random);
      const ReferenceBatch batch = random_batch(spec, {2, length}, random);
      const double loss = harness.step(batch);
      ReferenceTransformer reference(spec, harness.values());
      EXPECT_NEAR(loss, reference.loss_sum(batch).value(), 1e-5 * (1 + std::abs(loss))) << length;
    }
  }
}

TEST(Transformer, DropoutMasksChangeWithStepSeedAndSlot) {
  ModelSpec spec = odd_model();
  spec.dropout = 0.3;
  std::mt19937_64 random(std::random_device{}());
  ModelHarness harness(spec, {2, 5});
  harness.randomise(random);
  const ReferenceBatch batch = random_batch(spec, {2, 5}, random);
  const double loss = harness.step(batch);
  EXPECT_EQ(harness.step(batch), loss);
  ReferenceBatch other = batch;
  other.step += 1;
  EXPECT_NE(harness.step(other), loss);
  other = batch;
  other.seed += 1;
  EXPECT_NE(harness.step(other), loss);
  other = batch;
  other.global_sequences = {1, 2};
  EXPECT_NE(harness.step(other), loss);
}

TEST(Transformer, HasTheParametersThatItsShapesListInTheirOrder) {
  for (ModelSpec spec : {odd_model(), odd_llama()}) {
    for (const bool tied : {true, false}) {
      spec.tie_embeddings = tied;
      const auto model = Transformer::create(spec).value();
      const auto shapes = parameter_shapes(spec);
      ASSERT_EQ(model->parameters().size(), shapes.size());
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        EXPECT_EQ(model->parameters()[i].shape.name, shapes[i].name);
        EXPECT_EQ(model->parameters()[i].contributions, tied && i == 0 ? 2 : 1);
      }
      EXPECT_EQ(model->layers(), spec.layers + 2);
    }
  }
}

TEST(Transformer, InitialisesByNameAndSeedAlone) {
  ModelSpec shallow = odd_model();
  shallow.hidden = 48;
  shallow.context = 100;
  ModelSpec untied = shallow;
  untied.tie_embeddings = false;
  ModelHarness a(shallow, {1, 1});
  ModelHarness b(untied, {1, 1});
  a.model().initialise(a.stream(), 5);
  b.model().initialise(b.stream(), 5);
  for (std::size_t i = 0; i < a.model().parameters().size(); ++i) {
    const Parameter& parameter = a.model().parameters()[i];
    const Values values = read_all<float>(a.stream(), parameter.value).value();
    EXPECT_EQ(values, read_all<float>(b.stream(), b.model().parameters()[i].value).value());
    double squares = 0;
    for (const float value : values) {
      const double from_centre = double{value} - parameter.shape.initial_constant;
      squares += from_centre * from_centre;
    }
    // The sample deviation of n normals strays by 1 / sqrt(2n) of the deviation.
    const double count = static_cast<double>(values.size());
    const double deviation = parameter.shape.initial_deviation;
    EXPECT_NEAR(std::sqrt(squares / count), deviation, 5 * deviation / std::sqrt(2 * count))
        << parameter.shape.name;
  }
  b.model().initialise(b.stream(), 6);
  EXPECT_NE(read_all<float>(a.stream(), a.model().parameters()[0].value).value(),
            read_all<float>(b.stream(), b.model().parameters()[0].value).value());
}

TEST(Transformer, RefusesHeadsThatItCannotMake) {
  const auto refusal = [](const ModelSpec& base, auto change) {
    ModelSpec spec = base;
    change(spec);
    const auto model = Transformer::create(spec);
    if (model.has_value()) return std::string("accepted");
    EXPECT_EQ(model.error().code, Code::kInvalid);
    return model.error().message;
  };
  EXPECT_EQ(refusal(odd_llama(), [](ModelSpec&) {}), "accepted");
  EXPECT_THAT(refusal(odd_model(), [](ModelSpec& s) { s.heads = 4; }), HasSubstr("4 heads"));
  EXPECT_THAT(refusal(odd_model(), [](ModelSpec& s) { s.kv_heads = 1; }), HasSubstr("gpt2"));
  EXPECT_THAT(refusal(odd_model(), [](ModelSpec& s) { s.head_dimension = 4; }), HasSubstr("gpt2"));
  EXPECT_THAT(refusal(odd_llama(), [](ModelSpec& s) { s.kv_heads = 3; }), HasSubstr("3 groups"));
  EXPECT_THAT(refusal(odd_llama(), [](ModelSpec& s) { s.head_dimension = 5; }),
              HasSubstr("a head of 5"));
  EXPECT_THAT(refusal(odd_llama(), [](ModelSpec& s) { s.bias = true; }), HasSubstr("no biases"));
}

}  // namespace
}  // namespace quadrille
