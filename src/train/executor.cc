// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/executor.h"

#include <fmt/format.h>

#include <cmath>

#include "train/checkpoint_wait.h"

namespace quadrille::internal {

Executor::Executor(RankState& state) : state_(state), loader_(state) {
  context_.stream = state.stream.get();
  context_.tokens = state.tokens;
  context_.targets = state.targets;
  context_.loss_sum = state.loss_sum;
  context_.rounding = state.rounding;
  context_.seed = state.plan->job.training.seed;
  context_.activation = [this](std::int64_t layer, std::string_view name) {
    return state_.activations.view(layer, name);
  };
  context_.contributed = [this](int parameter) { return contributed(parameter); };
  if (state.tensor_share.degree == 1) return;
  context_.tensor = TensorGroup(*state.tensor_group, state.tensor_share,
                                [this](const std::function<Result<void>()>& collective) {
                                  const PhaseScope phase(watch_, Phase::kCommunication);
                                  return collective();
                                });
}

Result<StepFigures> Executor::train_step(std::int64_t step) {
  watch_.restart();
  step_ = step;
  figures_ = {};
  context_.step = step - 1;
  context_.training = true;
  state_.buckets->begin_step(state_.plan->micro_batches);
  clear_loss(state_);
  {
    const PhaseScope phase(watch_, Phase::kCompute);
    round_values(state_);
  }
  const auto rank = static_cast<std::size_t>(state_.world->rank().value);
  for (const Instruction& instruction : state_.plan->program.ranks[rank]) {
    QD_RETURN_IF_ERROR(run(instruction));
  }
  watch_.enter(Phase::kOther);
  return figures_;
}

Result<void> Executor::run(const Instruction& instruction) {
  const TraceScope span(state_.options.profiler, SpanKind::kInstruction,
                        [&instruction] { return to_text(instruction); });
  switch (instruction.kind) {
    case InstructionKind::kLoadBatch: {
      const PhaseScope phase(watch_, Phase::kData);
      load_batch(instruction.micro_batch);
      return {};
    }
    case InstructionKind::kForward: {
      const PhaseScope phase(watch_, Phase::kCompute);
      QD_RETURN_IF_ERROR(forward(instruction.layer));
      if (trace_ == nullptr) return {};
      return trace_->forward(step_, instruction.layer, context_.global_sequences);
    }
    case InstructionKind::kBackward: {
      const PhaseScope phase(watch_, Phase::kCompute);
      return backward(instruction.layer);
    }
    case InstructionKind::kReduceGradients: {
      const PhaseScope phase(watch_, Phase::kCommunication);
      return state_.buckets->finish();
    }
    case InstructionKind::kOptimizerStep: {
      const PhaseScope phase(watch_, Phase::kCompute);
      return optimizer_step();
    }
  }
  return fail(Code::kInternal, "the program holds an unknown instruction");
}

Result<void> Executor::acquire(std::int64_t layer) {
  const PhaseScope phase(watch_, Phase::kCommunication);
  return state_.residency.acquire(layer);
}

Result<void> Executor::forward(std::int64_t layer) {
  QD_RETURN_IF_ERROR(acquire(layer));
  QD_RETURN_IF_ERROR(state_.model->forward(layer, context_));
  state_.residency.release(layer);
  return {};
}

Result<void> Executor::backward(std::int64_t layer) {
  QD_RETURN_IF_ERROR(acquire(layer));
  QD_RETURN_IF_ERROR(state_.model->backward(layer, context_));
  state_.residency.release(layer);
  return {};
}

void Executor::load_batch(std::int64_t micro_batch) {
  // Where buckets share memory each micro-batch's gradients begin anew.
  context_.first_micro_batch = micro_batch == 0 || state_.sharding() >= 2;
  const std::int64_t first = loader_.first_slot(micro_batch);
  context_.global_sequences.clear();
  for (std::int64_t row = 0; row < state_.plan->micro_batch; ++row) {
    context_.global_sequences.push_back(first + row);
  }
  loader_.load_train(step_ - 1, micro_batch);
}

Result<void> Executor::contributed(int parameter) {
  const PhaseScope phase(watch_, Phase::kCommunication);
  return contribute(state_, parameter);
}

Result<LossSum> Executor::global_loss(std::int64_t local_count, const char* place) {
  QD_ASSIGN_OR_RETURN(const std::vector<double> local,
                      read_all<double>(*state_.stream, state_.loss_sum));
  return sum_over_ranks(state_, watch_, {local[0], local_count}, place);
}

Result<void> Executor::optimizer_step() {
  const std::int64_t per_rank = state_.share() * state_.plan->job.training.sequence;
  QD_ASSIGN_OR_RETURN(const LossSum loss, global_loss(per_rank, "the loss of the step"));
  if (!std::isfinite(loss.sum)) {
    QD_ASSIGN_OR_RETURN(const std::string bad, first_bad_tensor());
    return fail(Code::kInvalid,
                fmt::format("the loss of step {} is not finite ({}); first bad tensor: {}", step_,
                            loss.mean(), bad));
  }
  QD_RETURN_IF_ERROR(wait_for_checkpoint(state_, watch_));
  if (trace_ != nullptr) QD_RETURN_IF_ERROR(trace_->gradients(step_));
  QD_ASSIGN_OR_RETURN(figures_, update(state_, watch_, step_, loss));
  state_.residency.forget();
  if (trace_ == nullptr) return {};
  trace_->figures(step_, figures_.loss, figures_.gradient_norm);
  return trace_->weights(step_);
}

Result<double> Executor::evaluate() {
  context_.training = false;
  clear_loss(state_);
  round_values(state_);
  std::int64_t count = 0;
  for (std::int64_t batch = 0; batch < loader_.validation_batches(); ++batch) {
    for (std::int64_t micro_batch = 0; micro_batch < state_.plan->micro_batches; ++micro_batch) {
      const std::int64_t counted = loader_.load_validation(batch, micro_batch);
      if (counted == 0) continue;
      count += counted;
      for (std::int64_t layer = 0; layer < state_.model->layers(); ++layer) {
        QD_RETURN_IF_ERROR(forward(layer));
      }
    }
  }
  QD_ASSIGN_OR_RETURN(const LossSum loss, global_loss(count, "the validation loss"));
  return loss.mean();
}

}  // namespace quadrille::internal
