// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>
#include <utility>

#include "quadrille/kernels/adamw.h"
#include "quadrille/kernels/reduction.h"
#include "quadrille/optim/optimizer.h"

namespace quadrille {

struct AdamWOptimizer::State {
  TrainingSpec training;
  Stream* stream = nullptr;
  std::vector<OptimizedTensor> tensors;
  Lease moments;
  std::vector<TensorView> first;
  std::vector<TensorView> second;
  Lease scalars;
  TensorView squares;  ///< [tensors] float64: each gradient's sum of squares.
};

namespace {

/// Tensors start on cache lines.
Bytes padded(Bytes bytes) { return Bytes((bytes.count() + 63) / 64 * 64); }

Bytes moment_bytes(const std::vector<OptimizedTensor>& tensors) {
  Bytes total;
  for (const OptimizedTensor& tensor : tensors) total += padded(tensor.value.bytes()) * 2;
  return total;
}

}  // namespace

Error to_error(const NonfiniteGradient& gradient) {
  return Error{Code::kInvalid,
               "the gradient of " + gradient.name +
                   " is not finite: " + std::to_string(gradient.bad) + " of " +
                   std::to_string(gradient.elements) + " elements are NaN or infinite",
               {}};
}

AdamWOptimizer::AdamWOptimizer(std::unique_ptr<State> state) : state_(std::move(state)) {}

AdamWOptimizer::~AdamWOptimizer() {
  // The moments may still be in use; an operation that failed has been reported to who waited.
  (void)state_->stream->synchronize();
}

Result<std::unique_ptr<AdamWOptimizer>> AdamWOptimizer::create(
    const TrainingSpec& training, Stream& stream, Pool& pool,
    std::vector<OptimizedTensor> tensors) {
  auto state = std::make_unique<State>();
  state->training = training;
  state->stream = &stream;
  QD_ASSIGN_OR_RETURN(state->moments, pool.lease(moment_bytes(tensors), MemoryTag::kOptimizer,
                                                 "first and second moments"));
  const auto count = static_cast<std::int64_t>(tensors.size());
  QD_ASSIGN_OR_RETURN(state->scalars, pool.lease(Bytes(count * element_bytes(DType::kF64)),
                                                 MemoryTag::kWorkspace, "gradient norms"));
  state->squares = state->scalars.view(DType::kF64, {count});
  Bytes offset;
  for (const OptimizedTensor& tensor : tensors) {
    QD_CHECK_MSG(tensor.value.shape() == tensor.gradient.shape(), tensor.name);
    const Shape shape = tensor.value.shape();
    state->first.push_back(state->moments.view_at(offset, DType::kF32, shape));
    offset += padded(tensor.value.bytes());
    state->second.push_back(state->moments.view_at(offset, DType::kF32, shape));
    offset += padded(tensor.value.bytes());
  }
  state->tensors = std::move(tensors);
  return std::unique_ptr<AdamWOptimizer>(new AdamWOptimizer(std::move(state)));
}

// One pass over all gradients. Squares of fp32 values cannot overflow a float64 sum.
Result<double> AdamWOptimizer::sum_of_squares() {
  Stream& stream = *state_->stream;
  if (state_->tensors.empty()) return 0.0;
  const std::vector<double> zeros(state_->tensors.size(), 0.0);
  write_all<double>(stream, state_->squares, zeros);
  for (std::size_t i = 0; i < state_->tensors.size(); ++i) {
    if (!state_->tensors[i].counted) continue;
    kernels::add_sum_of_squares(stream, state_->tensors[i].gradient,
                                state_->squares.flat(static_cast<std::int64_t>(i), 1));
  }
  QD_ASSIGN_OR_RETURN(const std::vector<double> squares, read_all<double>(stream, state_->squares));
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

Result<std::vector<NonfiniteGradient>> AdamWOptimizer::nonfinite() {
  Stream& stream = *state_->stream;
  std::vector<NonfiniteGradient> found;
  for (const OptimizedTensor& tensor : state_->tensors) {
    if (!tensor.counted) continue;
    const TensorView scalar = state_->squares.flat(0, 1);
    const double zero = 0;
    write_all<double>(stream, scalar, std::span(&zero, 1));
    kernels::add_count_of_nonfinite(stream, tensor.gradient, scalar);
    QD_ASSIGN_OR_RETURN(const std::vector<double> count, read_all<double>(stream, scalar));
    if (count[0] == 0) continue;
    found.push_back({tensor.name, static_cast<std::int64_t>(count[0]),
                     tensor.whole > 0 ? tensor.whole : tensor.gradient.elements()});
  }
  return found;
}

OptimizerOutcome AdamWOptimizer::outcome(const OptimizerStep& step, double squares) const {
  QD_CHECK(step.tokens >= 1);
  OptimizerOutcome outcome;
  outcome.gradient_norm = std::sqrt(squares) / static_cast<double>(step.tokens);
  const double clip = state_->training.clip;
  if (clip > 0 && outcome.gradient_norm > clip) {
    outcome.clip_coefficient = clip / outcome.gradient_norm;
  }
  return outcome;
}

Result<OptimizerOutcome> AdamWOptimizer::step(const OptimizerStep& step) {
  QD_ASSIGN_OR_RETURN(const double squares, sum_of_squares());
  if (!std::isfinite(squares)) {
    QD_ASSIGN_OR_RETURN(const std::vector<NonfiniteGradient> bad, nonfinite());
    QD_CHECK(!bad.empty());
    return fail(to_error(bad.front()));
  }
  const OptimizerOutcome found = outcome(step, squares);
  update(step, found, 0, tensors());
  return found;
}

void AdamWOptimizer::update(const OptimizerStep& step, const OptimizerOutcome& outcome, int first,
                            int end) {
  QD_CHECK(step.step >= 1);
  const TrainingSpec& training = state_->training;
  const double gradient_scale = outcome.clip_coefficient / static_cast<double>(step.tokens);
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
    const OptimizedTensor& tensor = state_->tensors[i];
    const double decay = tensor.decayed ? training.weight_decay : 0;
    kernels::adamw(*state_->stream, {.parameter = tensor.value,
                                     .gradient = tensor.gradient,
                                     .first_moment = state_->first[i],
                                     .second_moment = state_->second[i],
                                     .gradient_scale = static_cast<float>(gradient_scale),
                                     .learning_rate = static_cast<float>(step.learning_rate),
                                     .beta1 = static_cast<float>(training.beta1),
                                     .beta2 = static_cast<float>(training.beta2),
                                     .epsilon = static_cast<float>(training.epsilon),
                                     .weight_decay = static_cast<float>(decay),
                                     .step = step.step});
  }
}

int AdamWOptimizer::tensors() const { return static_cast<int>(state_->tensors.size()); }

TensorView AdamWOptimizer::first_moment(int index) const {
  return state_->first[static_cast<std::size_t>(index)];
}

TensorView AdamWOptimizer::second_moment(int index) const {
  return state_->second[static_cast<std::size_t>(index)];
}

}  // namespace quadrille
