// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quadrille/optim/learning_rate.h"

namespace quadrille::internal {

Executor::Executor(RankState& state)
    : state_(state),
      reader_(*state.corpus, state.plan->job),
      host_tokens_(static_cast<std::size_t>(state.tokens.elements())),
      host_targets_(host_tokens_.size()) {
  context_.stream = state.stream.get();
  context_.tokens = state.tokens;
  context_.targets = state.targets;
  context_.loss_sum = state.loss_sum;
  context_.seed = state.plan->job.training.seed;
  context_.activation = [this](std::int64_t layer, std::string_view name) {
    return state_.activations.view(layer, name);
  };
  context_.contributed = [this](int parameter) { return contributed(parameter); };
}

Result<StepFigures> Executor::train_step(std::int64_t step) {
  watch_.restart();
  step_ = step;
  figures_ = {};
  context_.step = step - 1;
  context_.training = true;
  state_.buckets->begin_step(state_.plan->micro_batches);
  clear_loss(state_);
  const auto rank = static_cast<std::size_t>(state_.world->rank().value);
  for (const Instruction& instruction : state_.plan->program.ranks[rank]) {
    QD_RETURN_IF_ERROR(run(instruction));
  }
  watch_.enter(Phase::kOther);
  return figures_;
}

Result<void> Executor::run(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::kLoadBatch: {
      const PhaseScope phase(watch_, Phase::kData);
      load_batch(instruction.micro_batch);
      return {};
    }
    case InstructionKind::kForward: {
      const PhaseScope phase(watch_, Phase::kCompute);
      return state_.model->forward(instruction.layer, context_);
    }
    case InstructionKind::kBackward: {
      const PhaseScope phase(watch_, Phase::kCompute);
      return state_.model->backward(instruction.layer, context_);
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

void Executor::load_batch(std::int64_t micro_batch) {
  const std::int64_t first =
      state_.world->rank().value * state_.share() + micro_batch * state_.plan->micro_batch;
  context_.global_sequences.clear();
  for (std::int64_t row = 0; row < state_.plan->micro_batch; ++row) {
    context_.global_sequences.push_back(first + row);
  }
  reader_.fill_train(step_ - 1, first, {host_tokens_, host_targets_});
  upload_batch();
}

void Executor::upload_batch() {
  state_.stream->upload(std::as_bytes(std::span(host_tokens_)), state_.tokens);
  state_.stream->upload(std::as_bytes(std::span(host_targets_)), state_.targets);
}

Result<void> Executor::contributed(int parameter) {
  const PhaseScope phase(watch_, Phase::kCommunication);
  return state_.buckets->contribute(state_.entry_of_parameter[static_cast<std::size_t>(parameter)]);
}

Result<double> Executor::global_mean(std::int64_t local_count, const char* place) {
  QD_ASSIGN_OR_RETURN(const std::vector<double> local,
                      read_all<double>(*state_.stream, state_.loss_sum));
  std::array<double, 2> sums{local[0], static_cast<double>(local_count)};
  const PhaseScope phase(watch_, Phase::kCommunication);
  CollectiveScope scope = state_.world->whole().open(place);
  QD_RETURN_IF_ERROR(state_.world->whole().sum(scope, sums));
  return sums[0] / sums[1];
}

Result<void> Executor::optimizer_step() {
  const TrainingSpec& training = state_.plan->job.training;
  const std::int64_t per_rank = state_.share() * training.sequence;
  QD_ASSIGN_OR_RETURN(figures_.loss, global_mean(per_rank, "the loss of the step"));
  if (!std::isfinite(figures_.loss)) {
    QD_ASSIGN_OR_RETURN(const std::string bad, first_bad_tensor());
    return fail(Code::kInvalid,
                fmt::format("the loss of step {} is not finite ({}); first bad tensor: {}", step_,
                            figures_.loss, bad));
  }
  figures_.learning_rate = learning_rate_at(training, (step_ - 1) * training.tokens_per_step());
  auto outcome = state_.optimizer->step({.step = step_,
                                         .tokens = training.tokens_per_step(),
                                         .learning_rate = figures_.learning_rate});
  if (!outcome) return fail(with_context(outcome.error(), fmt::format("step {}", step_)));
  figures_.gradient_norm = outcome->gradient_norm;
  return state_.stream->synchronize();
}

Result<double> Executor::evaluate() {
  context_.training = false;
  clear_loss(state_);
  std::int64_t count = 0;
  for (std::int64_t batch = 0; batch < reader_.validation_batches(); ++batch) {
    for (std::int64_t micro_batch = 0; micro_batch < state_.plan->micro_batches; ++micro_batch) {
      const std::int64_t first =
          state_.world->rank().value * state_.share() + micro_batch * state_.plan->micro_batch;
      reader_.fill_validation(batch, first, {host_tokens_, host_targets_});
      const auto counted = std::count_if(host_targets_.begin(), host_targets_.end(),
                                         [](std::int32_t id) { return id != kIgnoredTarget; });
      if (counted == 0) continue;  // rows past the end of the validation part
      count += counted;
      upload_batch();
      for (std::int64_t layer = 0; layer < state_.model->layers(); ++layer) {
        QD_RETURN_IF_ERROR(state_.model->forward(layer, context_));
      }
    }
  }
  return global_mean(count, "the validation loss");
}

}  // namespace quadrille::internal
