// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transformer with all memory bound, on a device whose memory the host cannot touch, stepped the
// way an executor would. Buffers whose life has not begun or has ended hold NaN, so a layer that
// relies on more than activation_shapes promises poisons its result.

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/reference_transformer.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/memory/pool.h"
#include "quadrille/model/transformer.h"
#include "support/guarded_device.h"

namespace quadrille::testing {

/// Sizes that divide nothing: 3 heads of 2, 5 tokens, 11 words.
inline ModelSpec odd_model() {
  ModelSpec spec;
  spec.layers = 2;
  spec.hidden = 6;
  spec.heads = 3;
  spec.ffn = 14;
  spec.vocab = 11;
  spec.context = 7;
  return spec;
}

/// Sizes that divide nothing, and heads that together are wider than the residual stream.
inline ModelSpec odd_llama() {
  ModelSpec spec;
  spec.family = ModelFamily::kLlama;
  spec.layers = 2;
  spec.hidden = 7;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dimension = 6;
  spec.ffn = 13;
  spec.vocab = 11;
  spec.context = 7;
  spec.tie_embeddings = false;
  spec.bias = false;
  spec.rope_base = 30;
  return spec;
}

inline Shape shape_of(const std::vector<std::int64_t>& extents) {
  switch (extents.size()) {
    case 1:
      return {extents[0]};
    case 2:
      return {extents[0], extents[1]};
    default:
      return {extents[0], extents[1], extents[2]};
  }
}

/// Random rows whose targets are the next tokens, one of them not counted.
inline ReferenceBatch random_batch(const ModelSpec& spec, BatchShape shape,
                                   std::mt19937_64& random) {
  std::uniform_int_distribution<std::int32_t> token(0, static_cast<std::int32_t>(spec.vocab) - 1);
  ReferenceBatch batch;
  batch.sequence = shape.sequence;
  for (std::int64_t row = 0; row < shape.micro_batch; ++row) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t t = 0; t <= shape.sequence; ++t) tokens.push_back(token(random));
    batch.tokens.emplace_back(tokens.begin(), tokens.end() - 1);
    batch.targets.emplace_back(tokens.begin() + 1, tokens.end());
    batch.global_sequences.push_back(row);
  }
  batch.targets[0][0] = -1;
  batch.step = 3;
  batch.seed = 17;
  return batch;
}

class ModelHarness {
 public:
  ModelHarness(const ModelSpec& spec, BatchShape shape,
               kernels::ProductPrecision precision = kernels::ProductPrecision::kFp32,
               const TensorGroup& group = {})
      : model_(Transformer::create(spec, group.share()).value()), shape_(shape), group_(group) {
    for (Parameter& parameter : model_->parameters()) {
      const Shape extents = parameter.own_shape();
      parameter.value = tensor(DType::kF32, extents);
      parameter.gradient = tensor(DType::kF32, extents);
    }
    for (const ActivationShape& shape_row : activation_shapes(spec, shape, group.share())) {
      activations_[{shape_row.layer, shape_row.name}] = {
          tensor(DType::kF32, shape_of(shape_row.shape)), shape_row.life};
    }
    const Shape ids = {shape.micro_batch, shape.sequence};
    tokens_ = tensor(DType::kI32, ids);
    targets_ = tensor(DType::kI32, ids);
    loss_ = tensor(DType::kF64, {1});
    if (precision == kernels::ProductPrecision::kFp32) return;
    rounding_ = {precision, tensor(DType::kF32, {rounding_scratch(spec, shape, group.share())})};
  }

  ModelHarness(const ModelHarness&) = delete;
  ModelHarness& operator=(const ModelHarness&) = delete;
  ~ModelHarness() { EXPECT_TRUE(stream_->synchronize().has_value()); }

  Transformer& model() { return *model_; }
  Stream& stream() { return *stream_; }
  Pool& pool() { return *pool_; }
  [[nodiscard]] const std::vector<int>& contributed() const { return contributed_; }
  [[nodiscard]] const NamedValues& values() const { return values_; }

  /// Fresh weights: norms' scales about 1, the rest about 0, large enough that all paths count.
  void randomise(std::mt19937_64& random, float deviation = 0.4F) {
    std::normal_distribution<float> normal(0, deviation);
    for (const Parameter& parameter : model_->parameters()) {
      Values values(static_cast<std::size_t>(parameter.shape.elements()));
      const auto centre = static_cast<float>(parameter.shape.initial_constant);
      for (float& value : values) value = centre + normal(random);
      set(parameter, std::move(values));
    }
  }
  /// Those that this rank has of a model that is whole.
  void copy_values_from(const ModelHarness& other) {
    for (const Parameter& parameter : model_->parameters()) {
      const Values& whole = other.values_.at(parameter.shape.name);
      Values own;
      parameter.piece.for_each_run([&](std::int64_t first, std::int64_t, std::int64_t length) {
        own.insert(own.end(), whole.begin() + first, whole.begin() + first + length);
      });
      set(parameter, std::move(own));
    }
  }

  /// Adds one micro-batch's gradients to the model's, or begins them anew where it is a step's
  /// first, and returns its loss sum.
  double step(const ReferenceBatch& batch, bool first_micro_batch = false) {
    LayerContext context = start(batch);
    context.first_micro_batch = first_micro_batch;
    for (std::int64_t layer = 0; layer < model_->layers(); ++layer) {
      EXPECT_TRUE(model_->forward(layer, context).has_value());
      poison(layer, {ActivationLife::kForward});
    }
    for (std::int64_t layer = model_->layers() - 1; batch.training && layer >= 0; --layer) {
      EXPECT_TRUE(model_->backward(layer, context).has_value());
      poison(layer, {ActivationLife::kBackward, ActivationLife::kSaved});
      poison(layer + 1, {ActivationLife::kGradient});
      poison(layer - 1, {ActivationLife::kOutput});
    }
    return read_all<double>(*stream_, loss_).value()[0];
  }

  /// What a step begins with: zeros, and anything where the first contribution overwrites.
  void begin_gradients() {
    for (const Parameter& parameter : model_->parameters()) {
      if (parameter.overwritten) {
        fill_with_nan(parameter.gradient);
      } else {
        kernels::fill(*stream_, parameter.gradient, 0);
      }
    }
  }

  [[nodiscard]] Values gradient(const std::string& name) {
    for (const Parameter& parameter : model_->parameters()) {
      if (parameter.shape.name == name) {
        return read_all<float>(*stream_, parameter.gradient).value();
      }
    }
    ADD_FAILURE() << "no parameter " << name;
    return {};
  }

 private:
  struct Activation {
    TensorView view;
    ActivationLife life;
  };

  TensorView tensor(DType dtype, Shape shape) {
    const Bytes bytes(shape.elements() * element_bytes(dtype));
    leases_.push_back(pool_->lease(bytes, MemoryTag::kWorkspace, "test").value());
    return leases_.back().view(dtype, shape);
  }

  void set(const Parameter& parameter, Values values) {
    write_all<float>(*stream_, parameter.value, values);
    values_[parameter.shape.name] = std::move(values);
  }

  LayerContext start(const ReferenceBatch& batch) {
    for (const auto& [key, activation] : activations_) fill_with_nan(activation.view);
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> targets;
    for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
      tokens.insert(tokens.end(), batch.tokens[row].begin(), batch.tokens[row].end());
      targets.insert(targets.end(), batch.targets[row].begin(), batch.targets[row].end());
    }
    write_all<std::int32_t>(*stream_, tokens_, tokens);
    write_all<std::int32_t>(*stream_, targets_, targets);
    write_all<double>(*stream_, loss_, std::vector<double>{0.0});
    LayerContext context;
    context.stream = stream_.get();
    context.tokens = tokens_;
    context.targets = targets_;
    context.loss_sum = loss_;
    context.step = batch.step;
    context.global_sequences = batch.global_sequences;
    context.training = batch.training;
    context.seed = batch.seed;
    context.rounding = rounding_;
    context.tensor = group_;
    context.activation = [this](std::int64_t layer, std::string_view name) {
      const auto found = activations_.find({layer, std::string(name)});
      QD_CHECK_MSG(found != activations_.end(), std::string(name));
      return found->second.view;
    };
    context.contributed = [this](int index) -> Result<void> {
      contributed_.push_back(index);
      return {};
    };
    return context;
  }

  void fill_with_nan(const TensorView& view) {
    kernels::fill(*stream_, view, std::numeric_limits<float>::quiet_NaN());
  }
  void poison(std::int64_t layer, const std::vector<ActivationLife>& lives) {
    for (const auto& [key, activation] : activations_) {
      for (const ActivationLife life : lives) {
        if (key.first == layer && activation.life == life) fill_with_nan(activation.view);
      }
    }
  }

  std::unique_ptr<Device> device_ = make_guarded_device();
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  std::unique_ptr<Pool> pool_ = Pool::create({device_.get(), Bytes(0), "test"}).value();
  std::vector<Lease> leases_;
  std::unique_ptr<Transformer> model_;
  BatchShape shape_;
  TensorGroup group_;
  std::map<std::pair<std::int64_t, std::string>, Activation> activations_;
  TensorView tokens_;
  TensorView targets_;
  TensorView loss_;
  kernels::Rounding rounding_;
  std::vector<int> contributed_;
  NamedValues values_;
};

}  // namespace quadrille::testing
