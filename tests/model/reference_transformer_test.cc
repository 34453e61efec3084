// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/reference_transformer.h"

#include <gtest/gtest.h>

#include <random>

#include "model/model_harness.h"

namespace quadrille::testing {
namespace {

NamedValues random_parameters(const ModelSpec& spec, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0, 0.4F);
  NamedValues values;
  for (const ParameterShape& shape : parameter_shapes(spec)) {
    Values& of_shape = values[shape.name];
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      of_shape.push_back(static_cast<float>(shape.initial_constant) + normal(random));
    }
  }
  return values;
}

double loss_of(const ModelSpec& spec, const NamedValues& values, const ReferenceBatch& batch) {
  return ReferenceTransformer(spec, values).loss_sum(batch).value();
}

/// The reference is what the model is held against, so its own gradients are held against
/// differences of its loss: one random element of every parameter, central, step 2^-10.
TEST(ReferenceTransformer, GradientsAreTheSlopesOfItsLoss) {
  std::mt19937_64 random(std::random_device{}());
  ModelSpec untied = odd_model();
  untied.tie_embeddings = false;
  for (ModelSpec spec : {odd_model(), untied, odd_llama()}) {
    spec.dropout = 0.2;
    const NamedValues values = random_parameters(spec, random);
    const ReferenceBatch batch = random_batch(spec, {2, 5}, random);
    ReferenceTransformer reference(spec, values);
    const auto gradients = reference.gradients(reference.loss_sum(batch));
    const float step = 0x1p-10F;
    for (const auto& [name, gradient] : gradients) {
      const std::size_t element = random() % gradient.size();
      NamedValues moved = values;
      moved[name][element] = values.at(name)[element] + step;
      const double up = moved[name][element];
      const double above = loss_of(spec, moved, batch);
      moved[name][element] = values.at(name)[element] - step;
      const double slope = (above - loss_of(spec, moved, batch)) / (up - moved[name][element]);
      EXPECT_NEAR(gradient[element], slope, 1e-3 * (1 + std::abs(slope))) << name;
    }
  }
}

}  // namespace
}  // namespace quadrille::testing
