// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A model that is no transformer, trained like one: the last 8 bytes, each embedded, go side by
// side through two linear layers with a GELU between them and guess the next byte.
//   quadrille launch JOB -- custom_trainer [HIDDEN]
// Source: Bengio et al. 2003, "A neural probabilistic language model", section 2.

#include <cstdio>
#include <cstdlib>

#include "quadrille/kernels/embedding.h"
#include "quadrille/kernels/head_loss.h"
#include "quadrille/kernels/matmul.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/train/custom_trainer.h"
#include "quadrille/train/launched.h"

namespace {

using namespace quadrille;  // NOLINT: an example reads better so

constexpr std::int64_t kPast = 8;    // K, bytes that are looked back at
constexpr std::int64_t kWidth = 16;  // E, of a byte's embedding

/// Letters: N = B * T positions of a micro-batch, H hidden width, V vocabulary.
class ByteModel {
 public:
  explicit ByteModel(CustomTrainer& trainer) : trainer_(trainer), stream_(trainer.stream()) {}

  /// Parameters in the order in which forward uses them; activations once for the run.
  Result<void> build(std::int64_t hidden) {
    const Plan& plan = trainer_.plan();
    const std::int64_t n = plan.micro_batch * plan.job.training.sequence;
    const std::int64_t vocab = plan.job.model.vocab;
    QD_ASSIGN_OR_RETURN(bytes_, add("bytes.weight", {vocab, kWidth}, 1.0));
    QD_ASSIGN_OR_RETURN(places_, add("places.weight", {kPast, kWidth}, 0));
    QD_ASSIGN_OR_RETURN(up_, add("up.weight", {hidden, kPast * kWidth}, 0.1));
    QD_ASSIGN_OR_RETURN(head_, add("head.weight", {vocab, hidden}, 0.02));
    const std::int64_t chunk = kernels::head_loss_chunk(n, vocab);
    const std::int64_t numbers = n * (kPast + kPast * kWidth + 3 * hidden) + chunk * vocab;
    QD_ASSIGN_OR_RETURN(lease_, trainer_.pool().lease(Bytes(4 * numbers), MemoryTag::kActivation,
                                                      "the byte model's activations"));
    auto take = [this, at = Bytes(0)](DType dtype, Shape shape) mutable {
      const TensorView view = lease_.view_at(at, dtype, shape);
      at += view.bytes();
      return view;
    };
    windows_ = take(DType::kI32, {n, kPast});
    input_ = take(DType::kF32, {n, kPast, kWidth});
    for (TensorView* view : {&sum_, &hidden_, &gradient_}) *view = take(DType::kF32, {n, hidden});
    logits_ = take(DType::kF32, {chunk, vocab});
    return {};
  }

  Result<void> forward(const CustomBatch& batch, bool backward_follows) {
    look_back(batch.tokens);
    kernels::embedding_forward(stream_, {windows_, value(bytes_), value(places_), 0, input_});
    kernels::matmul(stream_, {.a = joined(), .b = value(up_), .c = sum_, .transpose_b = true});
    kernels::gelu_forward(stream_, sum_, hidden_);
    kernels::HeadLoss loss{hidden_, value(head_), batch.targets.flat(), batch.loss_sum, logits_};
    if (backward_follows) {
      loss.dx = gradient_;
      loss.weight_gradient = gradient(head_);
    }
    kernels::head_loss(stream_, loss);
    return {};
  }

  /// Each gradient is said to be ready as soon as it is complete.
  Result<void> backward() {
    QD_RETURN_IF_ERROR(trainer_.ready(head_));
    kernels::gelu_backward(stream_, sum_, gradient_, gradient_);
    kernels::Matmul up{.a = gradient_, .b = joined(), .c = gradient(up_), .transpose_a = true};
    up.accumulate = true;
    kernels::matmul(stream_, up);
    QD_RETURN_IF_ERROR(trainer_.ready(up_));
    // The input has been used, so its memory takes its gradient.
    kernels::matmul(stream_, {.a = gradient_, .b = value(up_), .c = joined()});
    kernels::embedding_backward(stream_, {windows_, input_, gradient(bytes_), gradient(places_)});
    QD_RETURN_IF_ERROR(trainer_.ready(places_));
    return trainer_.ready(bytes_);
  }

 private:
  Result<ParameterHandle> add(const char* name, Shape shape, double deviation) {
    return trainer_.add_parameter(
        {.name = name, .shape = shape, .decayed = true, .initial_deviation = deviation});
  }
  TensorView value(ParameterHandle parameter) const { return trainer_.value(parameter); }
  TensorView gradient(ParameterHandle parameter) const { return trainer_.gradient(parameter); }
  TensorView joined() const { return input_.reshape({windows_.shape()[0], kPast * kWidth}); }

  /// windows [N, K]: each position's byte and those before it, 0 before the sample's start.
  void look_back(const TensorView& tokens) {
    const Operand operands[] = {{tokens, Access::kRead}, {windows_, Access::kWrite}};
    stream_.launch("look_back", operands, [tokens, windows = windows_] {
      const auto* from = tokens.host<std::int32_t>();
      auto* to = windows.host<std::int32_t>();
      for (std::int64_t i = 0; i < windows.elements(); ++i) {
        const std::int64_t position = i / kPast, back = i % kPast;
        to[i] = position % tokens.shape()[1] >= back ? from[position - back] : 0;
      }
    });
  }

  CustomTrainer& trainer_;
  Stream& stream_;
  ParameterHandle bytes_, places_, up_, head_;
  Lease lease_;
  TensorView windows_, input_, sum_, hidden_, gradient_, logits_;
};

Result<TrainingOutcome> train_bytes(World& world, const TrainerOptions& options, int hidden) {
  QD_ASSIGN_OR_RETURN(const auto trainer, CustomTrainer::create(world, options));
  ByteModel model(*trainer);
  QD_RETURN_IF_ERROR(model.build(hidden));
  trainer->set_evaluation([&](const CustomBatch& batch) { return model.forward(batch, false); });
  QD_RETURN_IF_ERROR(trainer->start());
  while (true) {
    QD_ASSIGN_OR_RETURN(const bool more, trainer->begin_step());
    if (!more) return trainer->finish();
    for (std::int64_t i = 0; i < trainer->micro_batches(); ++i) {
      QD_ASSIGN_OR_RETURN(const CustomBatch batch, trainer->next_batch());
      QD_RETURN_IF_ERROR(model.forward(batch, true));
      QD_RETURN_IF_ERROR(model.backward());
    }
    QD_ASSIGN_OR_RETURN(const double loss, trainer->loss_sum());
    QD_RETURN_IF_ERROR(trainer->step({.sum = loss, .tokens = trainer->tokens()}));
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int hidden = count > 1 ? std::atoi(arguments[1]) : 128;
  const auto done = run_launched([hidden](World& world, const TrainerOptions& options) {
    return train_bytes(world, options, hidden);
  });
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().to_text().c_str());
  return 1;
}
