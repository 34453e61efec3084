// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/infer/generation_speed.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "infer/token_drawer.h"
#include "quadrille/infer/generator.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/kernels/projection.h"
#include "quadrille/kernels/reduction.h"
#include "quadrille/memory/pool.h"
#include "quadrille/model/decoder.h"
#include "quadrille/model/parameter_memory.h"

namespace quadrille {
namespace {

/// A product of a prompt: rows times a weight [outputs, inputs].
struct Product {
  TensorView value;   ///< fp32
  TensorView weight;  ///< As decoding has it.
  std::int64_t rows = 0;
};

class Measurement {
 public:
  Measurement(Device& device, const GenerationSpeedOptions& options)
      : device_(device), options_(options), stream_(device.make_stream()) {}
  ~Measurement() { (void)stream_->synchronize(); }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  Result<GenerationSpeed> run() {
    QD_RETURN_IF_ERROR(prepare());
    for (int round = -1; round < options_.rounds; ++round) {
      QD_RETURN_IF_ERROR(measure_round());
      if (round < 0) forget();
    }
    return std::move(speed_);
  }

 private:
  struct Subject {
    std::unique_ptr<Decoder> decoder;
    std::optional<internal::TokenDrawer> drawer;
  };

  Result<void> prepare() {
    QD_ASSIGN_OR_RETURN(pool_, Pool::create({.device = &device_, .name = "generation"}));
    QD_ASSIGN_OR_RETURN(model_, Transformer::create(options_.model));
    QD_ASSIGN_OR_RETURN(values_, bind_values(*model_, *pool_));
    model_->initialise(*stream_, 1);
    QD_ASSIGN_OR_RETURN(weights_,
                        DecoderWeights::create(*model_, options_.precision, *stream_, *pool_));
    speed_.weights = weights_.bytes();
    for (const std::int64_t batch : options_.batches) {
      speed_.decode.push_back({.batch = batch, .step = {}});
      Subject& subject = subjects_.emplace_back();
      QD_ASSIGN_OR_RETURN(subject.decoder,
                          Decoder::create(*model_, {.stream = stream_.get(),
                                                    .pool = pool_.get(),
                                                    .weights = &weights_,
                                                    .batch = batch,
                                                    .capacity = options_.prompt + options_.steps,
                                                    .most_new = options_.prompt}));
      QD_ASSIGN_OR_RETURN(subject.drawer,
                          internal::TokenDrawer::create(
                              *stream_, *pool_, {.rows = batch, .known = options_.model.vocab}));
    }
    return prepare_products();
  }

  /// Collects the products of a prompt: all layers' for each token, the head's for the last.
  Result<void> prepare_products() {
    std::int64_t widest = 0;
    std::int64_t longest = 0;
    const std::vector<Parameter>& parameters = model_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const TensorView& value = parameters[i].value;
      if (!weights_.multiplied(static_cast<int>(i))) continue;
      const Shape& shape = value.shape();
      const bool head = shape[0] == options_.model.vocab;
      products_.push_back({.value = value,
                           .weight = weights_.of(static_cast<int>(i), value),
                           .rows = head ? 1 : options_.prompt});
      const std::int64_t rows = products_.back().rows;
      speed_.prompt_flops += 2.0 * static_cast<double>(rows * shape.elements());
      speed_.read_bytes += value.bytes();
      widest = std::max(widest, rows * shape[0]);
      longest = std::max(longest, rows * shape[1]);
    }
    const auto lease = [&](std::int64_t floats) {
      return pool_->lease(Bytes(floats * 4), MemoryTag::kWorkspace, "products");
    };
    QD_ASSIGN_OR_RETURN(x_, lease(longest));
    QD_ASSIGN_OR_RETURN(y_, lease(widest));
    scratch_elements_ = std::max<std::int64_t>(16, weights_.scratch(options_.prompt));
    QD_ASSIGN_OR_RETURN(scratch_, lease(scratch_elements_));
    kernels::fill(*stream_, x_.view(DType::kF32, {longest}), 1);
    return stream_->synchronize();
  }

  Result<void> run_products() {
    for (const Product& product : products_) {
      const Shape& shape = product.value.shape();
      kernels::projection(*stream_, {.x = x_.view(DType::kF32, {product.rows, shape[1]}),
                                     .weight = product.weight,
                                     .bias = {},
                                     .y = y_.view(DType::kF32, {product.rows, shape[0]}),
                                     .scratch = scratch_.view(DType::kF32, {scratch_elements_})});
    }
    return stream_->synchronize();
  }

  Result<void> read_weights() {
    // Any eight bytes take the sum.
    const TensorView sum = scratch_.view(DType::kF64, {1});
    for (const Product& product : products_) {
      kernels::add_sum_of_squares(*stream_, product.value, sum);
    }
    return stream_->synchronize();
  }

  Result<void> prompt_once(Decoder& decoder) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(options_.prompt));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] =
          static_cast<std::int32_t>(static_cast<std::int64_t>(i * 7919) % options_.model.vocab);
    }
    decoder.clear();
    QD_RETURN_IF_ERROR(decoder.prompt(0, ids));
    return stream_->synchronize();
  }

  /// Decodes from where the prompt of the first sequence ends, in all of them.
  Result<void> decode(Subject& subject, GenerationSpeed::Decode& row) {
    QD_RETURN_IF_ERROR(prompt_once(*subject.decoder));
    std::vector<NextToken> next;
    for (std::int64_t sequence = 0; sequence < row.batch; ++sequence) {
      subject.decoder->copy_sequence(0, sequence);
      next.push_back({sequence, static_cast<std::int32_t>(sequence)});
    }
    const std::vector<double> draws(next.size(), 0.5);
    for (std::int64_t step = 0; step < options_.steps; ++step) {
      const Seconds began = monotonic_now();
      QD_ASSIGN_OR_RETURN(const TensorView logits, subject.decoder->step(next));
      QD_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids,
                          subject.drawer->draw(logits, {}, draws));
      row.step.push_back(monotonic_now() - began);
      for (std::size_t i = 0; i < next.size(); ++i) next[i].token = ids[i];
    }
    return {};
  }

  Result<void> measure_round() {
    const auto add = [](std::vector<Seconds>& times, const auto& work) -> Result<void> {
      const Seconds began = monotonic_now();
      QD_RETURN_IF_ERROR(work());
      times.push_back(monotonic_now() - began);
      return {};
    };
    QD_RETURN_IF_ERROR(add(speed_.products, [&] { return run_products(); }));
    QD_RETURN_IF_ERROR(add(speed_.prompt, [&] { return prompt_once(*subjects_[0].decoder); }));
    QD_RETURN_IF_ERROR(add(speed_.read, [&] { return read_weights(); }));
    for (std::size_t i = 0; i < subjects_.size(); ++i) {
      QD_RETURN_IF_ERROR(decode(subjects_[i], speed_.decode[i]));
    }
    return {};
  }

  void forget() {
    speed_.products.clear();
    speed_.prompt.clear();
    speed_.read.clear();
    for (GenerationSpeed::Decode& row : speed_.decode) row.step.clear();
  }

  Device& device_;
  const GenerationSpeedOptions& options_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Pool> pool_;
  Lease values_;
  std::unique_ptr<Transformer> model_;
  DecoderWeights weights_;
  std::vector<Subject> subjects_;
  std::vector<Product> products_;
  Lease x_;
  Lease y_;
  Lease scratch_;
  std::int64_t scratch_elements_ = 0;
  GenerationSpeed speed_;
};

}  // namespace

Result<GenerationSpeed> measure_generation(Device& device, const GenerationSpeedOptions& options) {
  if (options.prompt < 1 || options.steps < 1 || options.rounds < 1 || options.batches.empty()) {
    return fail(Code::kInvalid, "a prompt, steps, rounds and batches are needed to measure");
  }
  if (options.prompt + options.steps > options.model.context) {
    return fail(Code::kInvalid, "a prompt of " + std::to_string(options.prompt) + " tokens and " +
                                    std::to_string(options.steps) +
                                    " more exceed the model's context of " +
                                    std::to_string(options.model.context));
  }
  return Measurement(device, options).run();
}

}  // namespace quadrille
