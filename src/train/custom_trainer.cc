// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/train/custom_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "quadrille/base/random.h"
#include "quadrille/kernels/pointwise.h"
#include "train/batch_loader.h"
#include "train/checkpoint_wait.h"
#include "train/declared_parameters.h"
#include "train/resume.h"
#include "train/step_boundary.h"
#include "train/step_report.h"

namespace quadrille {

using internal::agree_on;
using internal::BatchLoader;
using internal::check_alike;
using internal::LossSum;
using internal::RankBase;
using internal::StepBoundary;
using internal::StepFigures;
using internal::TrainedTensor;

namespace {

enum class Stage : std::uint8_t { kDeclaring, kBetweenSteps, kInStep, kOver };

const char* stage_text(Stage stage) {
  switch (stage) {
    case Stage::kDeclaring:
      return "before start()";
    case Stage::kBetweenSteps:
      return "outside a step (begin_step() starts one)";
    case Stage::kInStep:
      return "inside a step (step() ends it)";
    case Stage::kOver:
      return "after the last step";
  }
  return "";
}

}  // namespace

struct CustomTrainer::State : RankBase {
  std::vector<CustomParameter> declared;
  std::function<Result<void>(const CustomBatch&)> evaluation;
  Stage stage = Stage::kDeclaring;
  std::optional<Error> failed;  ///< The first error, kept.
  std::optional<BatchLoader> loader;
  std::optional<StepBoundary> boundary;
  Stopwatch watch;
  std::int64_t step = 0;  ///< From 1, inside a step.
  std::int64_t batches_taken = 0;

  [[nodiscard]] tl::unexpected<Error> remember(Error error) {
    if (!failed) failed = std::move(error);
    return fail(*failed);
  }
  /// `call` is legal in `wanted` alone.
  [[nodiscard]] Result<void> expect(Stage wanted, std::string_view call) {
    if (failed) return fail(*failed);
    if (stage == wanted) return {};
    return remember({Code::kInvalid, fmt::format("{} was called {}", call, stage_text(stage)), {}});
  }
  template <class T>
  [[nodiscard]] Result<T> kept(Result<T> result) {
    if (!result) return remember(std::move(result).error());
    return result;
  }

  [[nodiscard]] TrainedTensor& tensor(int index) {
    QD_CHECK_MSG(index >= 0 && static_cast<std::size_t>(index) < tensors.size(),
                 "this handle was not made by this trainer's add_parameter");
    return tensors[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::int64_t rank_tokens() const { return share() * plan->job.training.sequence; }
  [[nodiscard]] CustomBatch batch(std::int64_t micro_batch) const {
    return {tokens, targets, loss_sum, loader->first_slot(micro_batch)};
  }

  [[nodiscard]] Result<void> check_declaration(const CustomParameter& parameter);
  [[nodiscard]] Result<void> prepare_alone();
  [[nodiscard]] Result<void> start();
  void initialise();
  [[nodiscard]] Result<void> check_step(const CustomLoss& loss) const;
  [[nodiscard]] Result<StepFigures> reduce_and_update(const CustomLoss& loss);
  [[nodiscard]] Result<void> end_step(const CustomLoss& loss);
  [[nodiscard]] Result<double> evaluate();
};

Result<void> CustomTrainer::State::check_declaration(const CustomParameter& parameter) {
  const auto wrong = [&parameter](std::string_view why) {
    return fail(Code::kInvalid, fmt::format("parameter \"{}\" {}", parameter.name, why));
  };
  if (stage != Stage::kDeclaring) return wrong("was added after start(): buckets are laid out");
  if (parameter.name.empty()) return wrong("needs a name");
  if (parameter.name.starts_with("optimizer.")) return wrong("has a name that moments have");
  if (parameter.shape.dimensions() == 0 || parameter.shape.elements() == 0) {
    return wrong("has no elements: shape " + parameter.shape.to_text());
  }
  if (parameter.contributions < 1) return wrong("needs at least one contribution a micro-batch");
  if (!(parameter.initial_deviation >= 0) || !std::isfinite(parameter.initial_deviation) ||
      !std::isfinite(parameter.initial_constant)) {
    return wrong("has initial values that are not finite");
  }
  const bool twice = std::any_of(declared.begin(), declared.end(),
                                 [&](const auto& other) { return other.name == parameter.name; });
  if (twice) return wrong("was added twice");
  return {};
}

Result<void> CustomTrainer::State::prepare_alone() {
  if (declared.empty()) return fail(Code::kInvalid, "no parameter was added before start()");
  if (plan->job.training.evaluate_every > 0 && !evaluation) {
    return fail(Code::kInvalid,
                "the job sets training.evaluate_every, but the program has no set_evaluation()");
  }
  for (const CustomParameter& parameter : declared) {
    tensors.push_back({.name = parameter.name,
                       .shape = parameter.shape,
                       .decayed = parameter.decayed,
                       .contributions = parameter.contributions,
                       .piece = internal::whole_piece(parameter.shape),
                       .whole = parameter.shape,
                       .value = {},
                       .gradient = {}});
  }
  return {};
}

void CustomTrainer::State::initialise() {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const CustomParameter& parameter = declared[i];
    if (parameter.initial_deviation > 0) {
      const RandomStream random(plan->job.training.seed, RandomPurpose::kInitialise,
                                stable_id(parameter.name));
      kernels::fill_normal(*stream, random, static_cast<float>(parameter.initial_deviation),
                           tensors[i].value);
    } else {
      kernels::fill(*stream, tensors[i].value, static_cast<float>(parameter.initial_constant));
    }
  }
}

Result<void> CustomTrainer::State::start() {
  QD_RETURN_IF_ERROR(agree_on(*world, failed ? Result<void>(fail(*failed)) : prepare_alone()));
  QD_RETURN_IF_ERROR(check_alike(*world, declared));
  QD_RETURN_IF_ERROR(internal::join_axes(*this));
  // What forward uses last, backward completes first.
  std::vector<int> backward_order(tensors.size());
  std::iota(backward_order.rbegin(), backward_order.rend(), 0);
  QD_RETURN_IF_ERROR(agree_on(*world, bind_training(*this, backward_order)));
  QD_ASSIGN_OR_RETURN(const internal::StartPoint point,
                      internal::start_or_resume(*this, [this]() -> Result<void> {
                        initialise();
                        return {};
                      }));
  options.log->info(fmt::format("training {} from step {}", plan->job.name, point.step));
  loader.emplace(*this);
  boundary.emplace(*this, point);
  QD_RETURN_IF_ERROR(boundary->open());
  stage = Stage::kBetweenSteps;
  return {};
}

Result<void> CustomTrainer::State::check_step(const CustomLoss& loss) const {
  if (batches_taken != 0 && batches_taken != plan->micro_batches) {
    return fail(Code::kInvalid,
                fmt::format("step {} took {} of {} micro-batches: next_batch() gives each to be "
                            "trained on",
                            step, batches_taken, plan->micro_batches));
  }
  const std::int64_t most = rank_tokens();
  if (loss.tokens >= 1 && loss.tokens <= most) return {};
  return fail(Code::kInvalid,
              fmt::format("step {} counts {} tokens on rank {}, which has 1 to {} in a step ({} "
                          "sequences of {}); the runtime adds up the ranks'",
                          step, loss.tokens, world->rank().value, most, share(),
                          plan->job.training.sequence));
}

Result<StepFigures> CustomTrainer::State::reduce_and_update(const CustomLoss& loss) {
  QD_ASSIGN_OR_RETURN(const LossSum global, sum_over_ranks(*this, watch, {loss.sum, loss.tokens},
                                                           "the loss of the step"));
  if (!std::isfinite(global.sum)) {
    QD_ASSIGN_OR_RETURN(const std::optional<std::string> bad, first_bad_value(*this));
    return fail(Code::kInvalid,
                fmt::format("the loss of step {} is not finite ({}); first bad tensor: {}", step,
                            global.mean(), bad.value_or("none, every parameter is finite")));
  }
  QD_RETURN_IF_ERROR(wait_for_checkpoint(*this, watch));
  const PhaseScope phase(watch, Phase::kCompute);
  return update(*this, watch, step, global);
}

Result<void> CustomTrainer::State::end_step(const CustomLoss& loss) {
  QD_RETURN_IF_ERROR(buckets->finish());
  QD_RETURN_IF_ERROR(check_step(loss));
  auto figures = reduce_and_update(loss);
  if (!figures) return boundary->abandon(step, figures.error());
  watch.enter(Phase::kOther);
  QD_ASSIGN_OR_RETURN(StepRecord record, report_step(*this, watch, step, *figures));
  if (boundary->evaluates(step)) {
    QD_RETURN_IF_ERROR(boundary->evaluate(record, [this] { return evaluate(); }));
  }
  return boundary->complete(record);
}

Result<double> CustomTrainer::State::evaluate() {
  clear_loss(*this);
  std::int64_t count = 0;
  for (std::int64_t number = 0; number < loader->validation_batches(); ++number) {
    for (std::int64_t micro_batch = 0; micro_batch < plan->micro_batches; ++micro_batch) {
      const std::int64_t counted = loader->load_validation(number, micro_batch);
      if (counted == 0) continue;  // rows past the end of the validation part
      count += counted;
      QD_RETURN_IF_ERROR(evaluation(batch(micro_batch)));
    }
  }
  QD_ASSIGN_OR_RETURN(const std::vector<double> local, read_all<double>(*stream, loss_sum));
  QD_ASSIGN_OR_RETURN(const LossSum global,
                      sum_over_ranks(*this, watch, {local[0], count}, "the validation loss"));
  return global.mean();
}

CustomTrainer::CustomTrainer(std::unique_ptr<State> state) : state_(std::move(state)) {}

CustomTrainer::~CustomTrainer() {
  // Tensors may still be in use; an operation that failed has been reported to who waited.
  if (state_->stream) (void)state_->stream->synchronize();
}

Result<std::unique_ptr<CustomTrainer>> CustomTrainer::create(World& world,
                                                             const TrainerOptions& options) {
  QD_CHECK(options.plan != nullptr && options.device != nullptr);
  QD_CHECK(options.events != nullptr && options.log != nullptr);
  if (world.size() != options.plan->ranks()) {
    return fail(Code::kInvalid, fmt::format("the plan is for {} ranks, but {} started",
                                            options.plan->ranks(), world.size()));
  }
  auto state = std::make_unique<State>();
  QD_RETURN_IF_ERROR(agree_on(world, open_base(*state, world, options)));
  return std::unique_ptr<CustomTrainer>(new CustomTrainer(std::move(state)));
}

Result<ParameterHandle> CustomTrainer::add_parameter(CustomParameter parameter) {
  if (state_->failed) return fail(*state_->failed);
  QD_RETURN_IF_ERROR(state_->kept(state_->check_declaration(parameter)));
  state_->declared.push_back(std::move(parameter));
  return ParameterHandle(static_cast<int>(state_->declared.size()) - 1);
}

void CustomTrainer::set_evaluation(std::function<Result<void>(const CustomBatch&)> evaluation) {
  state_->evaluation = std::move(evaluation);
}

Result<void> CustomTrainer::start() {
  // A rank whose declarations failed says so to the others, who are about to start.
  if (!state_->failed || state_->stage != Stage::kDeclaring) {
    QD_RETURN_IF_ERROR(state_->expect(Stage::kDeclaring, "start()"));
  }
  return state_->kept(state_->start());
}

TensorView CustomTrainer::value(ParameterHandle parameter) const {
  return state_->tensor(parameter.index_).value;
}
TensorView CustomTrainer::gradient(ParameterHandle parameter) const {
  return state_->tensor(parameter.index_).gradient;
}
const Plan& CustomTrainer::plan() const { return *state_->plan; }
Stream& CustomTrainer::stream() { return *state_->stream; }
Pool& CustomTrainer::pool() { return *state_->pool; }
std::int64_t CustomTrainer::micro_batches() const { return state_->plan->micro_batches; }
std::int64_t CustomTrainer::tokens() const { return state_->rank_tokens(); }

Result<bool> CustomTrainer::begin_step() {
  State& state = *state_;
  QD_RETURN_IF_ERROR(state.expect(Stage::kBetweenSteps, "begin_step()"));
  const std::int64_t done = state.boundary->steps_done();
  if (!state.boundary->goes_on()) {
    state.stage = Stage::kOver;
    return false;
  }
  state.step = done + 1;
  state.batches_taken = 0;
  state.boundary->enter(state.step);
  state.watch.restart();
  state.watch.enter(Phase::kCompute);
  state.buckets->begin_step(state.plan->micro_batches);
  clear_loss(state);
  state.stage = Stage::kInStep;
  return true;
}

Result<CustomBatch> CustomTrainer::next_batch() {
  State& state = *state_;
  QD_RETURN_IF_ERROR(state.expect(Stage::kInStep, "next_batch()"));
  if (state.batches_taken == state.plan->micro_batches) {
    return state.remember({Code::kInvalid,
                           fmt::format("step {} has {} micro-batches and was asked for another",
                                       state.step, state.plan->micro_batches),
                           {}});
  }
  const PhaseScope phase(state.watch, Phase::kData);
  const std::int64_t micro_batch = state.batches_taken++;
  state.loader->load_train(state.step - 1, micro_batch);
  return state.batch(micro_batch);
}

Result<void> CustomTrainer::ready(ParameterHandle parameter) {
  State& state = *state_;
  const TrainedTensor& tensor = state.tensor(parameter.index_);
  QD_RETURN_IF_ERROR(
      state.expect(Stage::kInStep, fmt::format("ready() of parameter \"{}\"", tensor.name)));
  const PhaseScope phase(state.watch, Phase::kCommunication);
  return state.kept(contribute(state, parameter.index_));
}

Result<double> CustomTrainer::loss_sum() {
  State& state = *state_;
  QD_RETURN_IF_ERROR(state.expect(Stage::kInStep, "loss_sum()"));
  auto sum = state.kept(read_all<double>(*state.stream, state.loss_sum));
  if (!sum) return fail(sum.error());
  return sum->front();
}

Result<void> CustomTrainer::step(const CustomLoss& loss) {
  State& state = *state_;
  QD_RETURN_IF_ERROR(state.expect(Stage::kInStep, "step()"));
  QD_RETURN_IF_ERROR(state.kept(state.end_step(loss)));
  state.stage = Stage::kBetweenSteps;
  return {};
}

Result<TrainingOutcome> CustomTrainer::finish() {
  State& state = *state_;
  if (state.stage != Stage::kOver) {
    QD_RETURN_IF_ERROR(state.expect(Stage::kBetweenSteps, "finish()"));
  }
  if (state.failed) return fail(*state.failed);
  state.stage = Stage::kOver;
  return state.kept(state.boundary->finish());
}

}  // namespace quadrille
