// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What this program computes with the golden folders against what torch computed with them: logits,
// and losses and gradient norms of ten AdamW steps on the same batches.
// tests/tools/make_hugging_face_goldens.py made the folders and says what is in golden.safetensors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/hugging_face_fixture.h"
#include "model/model_harness.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/model/decoder.h"
#include "quadrille/model/parameter_memory.h"
#include "quadrille/optim/optimizer.h"

namespace quadrille {
namespace {

using checkpoint_test::golden_cases;
using checkpoint_test::golden_folder;
using checkpoint_test::model_of;
using testing::ModelHarness;
using testing::ReferenceBatch;

template <class T>
struct Golden {
  Shape shape;
  std::vector<T> values;
};

template <class T>
Golden<T> golden(const std::string& name, const std::string& tensor) {
  const auto file = SafetensorsFile::open(golden_folder(name) + "/golden.safetensors");
  EXPECT_TRUE(file.has_value()) << file.error().to_text();
  const SafetensorsTensor* found = file->find(tensor);
  EXPECT_NE(found, nullptr) << tensor;
  EXPECT_EQ(found->dtype, stored_type(dtype_of<T>()));
  Golden<T> result{found->shape, {}};
  result.values.resize(static_cast<std::size_t>(found->shape.elements()));
  EXPECT_TRUE(
      file->read(*found, Bytes(0), std::as_writable_bytes(std::span(result.values))).has_value());
  return result;
}

void load_values(const std::string& name, Transformer& model, Stream& stream) {
  const auto folder = HuggingFaceFolder::open(golden_folder(name), model.spec());
  ASSERT_TRUE(folder.has_value()) << folder.error().to_text();
  for (const Parameter& parameter : model.parameters()) {
    const auto values = folder->read(parameter.shape);
    ASSERT_TRUE(values.has_value()) << values.error().to_text();
    write_all<float>(stream, parameter.value, *values);
    ASSERT_TRUE(stream.synchronize().has_value());
  }
}

/// Inputs and targets of step `index` of `batches` [steps, B, T + 1].
ReferenceBatch batch_of(const Golden<std::int32_t>& batches, std::int64_t index) {
  ReferenceBatch batch;
  batch.sequence = batches.shape[2] - 1;
  for (std::int64_t row = 0; row < batches.shape[1]; ++row) {
    const auto first = batches.values.begin() + (index * batches.shape[1] + row) * batches.shape[2];
    batch.tokens.emplace_back(first, first + batch.sequence);
    batch.targets.emplace_back(first + 1, first + 1 + batch.sequence);
    batch.global_sequences.push_back(row);
  }
  return batch;
}

/// The script's hyper-parameters.
TrainingSpec training() {
  TrainingSpec spec;
  spec.beta1 = 0.9;
  spec.beta2 = 0.95;
  spec.epsilon = 1e-8;
  spec.weight_decay = 0.1;
  spec.clip = 1.0;
  return spec;
}

class GoldenFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenFolder, GivesTorchsLogitsAtEveryPosition) {
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  const auto pool = Pool::create({.device = device.get(), .name = "test"}).value();
  const auto model = Transformer::create(model_of(golden_folder(GetParam()))).value();
  const Lease values = bind_values(*model, *pool).value();
  load_values(GetParam(), *model, *stream);
  const auto tokens = golden<std::int32_t>(GetParam(), "tokens");
  const auto expected = golden<float>(GetParam(), "logits");
  const std::int64_t sequences = tokens.shape[0];
  const std::int64_t length = tokens.shape[1];
  const std::int64_t vocab = expected.shape[2];
  const auto decoder =
      Decoder::create(*model, {.stream = stream.get(), .pool = pool.get(), .batch = sequences})
          .value();
  for (std::int64_t t = 0; t < length; ++t) {
    std::vector<std::int32_t> column;
    for (std::int64_t s = 0; s < sequences; ++s) {
      column.push_back(tokens.values[static_cast<std::size_t>(s * length + t)]);
    }
    const auto logits = decoder->feed(column);
    ASSERT_TRUE(logits.has_value()) << logits.error().to_text();
    for (std::int64_t i = 0; i < sequences * vocab; ++i) {
      const auto at = static_cast<std::size_t>((i / vocab * length + t) * vocab + i % vocab);
      ASSERT_NEAR((*logits)[static_cast<std::size_t>(i)], expected.values[at], 1e-4)
          << "position " << t << ", sequence " << i / vocab << ", token " << i % vocab;
    }
  }
}

TEST_P(GoldenFolder, TrainsToTorchsLossesAndGradientNorms) {
  const auto batches = golden<std::int32_t>(GetParam(), "batches");
  const auto losses = golden<double>(GetParam(), "losses");
  const auto norms = golden<double>(GetParam(), "norms");
  const std::int64_t tokens = batches.shape[1] * (batches.shape[2] - 1);
  ModelHarness harness(model_of(golden_folder(GetParam())),
                       {batches.shape[1], batches.shape[2] - 1});
  load_values(GetParam(), harness.model(), harness.stream());
  std::vector<OptimizedTensor> tensors;
  for (const Parameter& parameter : harness.model().parameters()) {
    tensors.push_back(
        {parameter.shape.name, parameter.value, parameter.gradient, parameter.shape.decayed});
  }
  const auto optimizer =
      AdamWOptimizer::create(training(), harness.stream(), harness.pool(), tensors).value();
  for (std::int64_t step = 0; step < batches.shape[0]; ++step) {
    for (const Parameter& parameter : harness.model().parameters()) {
      kernels::fill(harness.stream(), parameter.gradient, 0.0F);
    }
    const double loss = harness.step(batch_of(batches, step)) / static_cast<double>(tokens);
    const auto outcome =
        optimizer->step({.step = step + 1, .tokens = tokens, .learning_rate = 1e-2});
    ASSERT_TRUE(outcome.has_value()) << outcome.error().to_text();
    const auto at = static_cast<std::size_t>(step);
    EXPECT_NEAR(loss / losses.values[at], 1, 1e-5) << "step " << step;
    EXPECT_NEAR(outcome->gradient_norm / norms.values[at], 1, 1e-4) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, GoldenFolder, ::testing::ValuesIn(golden_cases()),
                         [](const auto& made) { return made.param; });

}  // namespace
}  // namespace quadrille
