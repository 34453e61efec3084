// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/rank_state.h"

#include <algorithm>
#include <string>
#include <utility>

namespace quadrille::internal {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Shape shape_of(const ParameterShape& parameter) {
  QD_CHECK(parameter.shape.size() == 1 || parameter.shape.size() == 2);
  if (parameter.shape.size() == 1) return {parameter.shape[0]};
  return {parameter.shape[0], parameter.shape[1]};
}

// All parameters lie one after the other in a single lease.
Result<void> bind_parameters(RankState& state) {
  std::int64_t total = 0;
  for (const Parameter& parameter : state.model->parameters()) {
    total += aligned(parameter.shape.elements() * 4);
  }
  QD_ASSIGN_OR_RETURN(state.parameter_lease,
                      state.pool->lease(Bytes(total), MemoryTag::kParameter, "the parameters"));
  std::int64_t offset = 0;
  for (Parameter& parameter : state.model->parameters()) {
    parameter.value =
        state.parameter_lease.view_at(Bytes(offset), DType::kF32, shape_of(parameter.shape));
    offset += aligned(parameter.shape.elements() * 4);
  }
  return {};
}

Result<void> bind_gradients(RankState& state) {
  std::vector<Parameter>& parameters = state.model->parameters();
  std::vector<GradientEntry> entries;
  state.entry_of_parameter.assign(parameters.size(), -1);
  for (const int index : state.model->backward_order()) {
    const Parameter& parameter = parameters[static_cast<std::size_t>(index)];
    state.entry_of_parameter[static_cast<std::size_t>(index)] = static_cast<int>(entries.size());
    entries.push_back({parameter.shape.name, shape_of(parameter.shape), parameter.contributions});
  }
  QD_CHECK_MSG(entries.size() == parameters.size(), "backward completes every parameter once");
  GradientBucketOptions options{.group = &state.world->whole(),
                                .stream = state.stream.get(),
                                .pool = state.pool.get(),
                                .bucket = state.plan->job.communication.bucket};
  QD_ASSIGN_OR_RETURN(state.buckets, GradientBuckets::create(options, entries));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].gradient = state.buckets->gradient(state.entry_of_parameter[i]);
  }
  return {};
}

Result<void> bind_optimizer(RankState& state) {
  std::vector<OptimizedTensor> tensors;
  for (const Parameter& parameter : state.model->parameters()) {
    tensors.push_back(
        {parameter.shape.name, parameter.value, parameter.gradient, parameter.shape.decayed});
  }
  QD_ASSIGN_OR_RETURN(state.optimizer,
                      AdamWOptimizer::create(state.plan->job.training, *state.stream, *state.pool,
                                             std::move(tensors)));
  return {};
}

Result<void> bind_batch(RankState& state) {
  const std::int64_t batch = state.plan->micro_batch;
  const std::int64_t sequence = state.plan->job.training.sequence;
  const std::int64_t ids = aligned(batch * sequence * 4);
  QD_ASSIGN_OR_RETURN(state.batch_lease, state.pool->lease(Bytes(2 * ids + kAlignment),
                                                           MemoryTag::kWorkspace, "the batch"));
  state.tokens = state.batch_lease.view_at(Bytes(0), DType::kI32, {batch, sequence});
  state.targets = state.batch_lease.view_at(Bytes(ids), DType::kI32, {batch, sequence});
  state.loss_sum = state.batch_lease.view_at(Bytes(2 * ids), DType::kF64, {1});
  return {};
}

}  // namespace

std::string checkpoint_directory(const Plan& plan, const std::string& run_directory) {
  const std::string& chosen = plan.job.checkpoint.directory;
  return chosen.empty() ? run_directory + "/checkpoints" : chosen;
}

Result<std::unique_ptr<RankState>> build_local(World& world, const TrainerOptions& options) {
  auto state = std::make_unique<RankState>();
  state->plan = options.plan;
  state->world = &world;
  state->options = options;
  const Plan& plan = *options.plan;
  QD_ASSIGN_OR_RETURN(state->corpus, Corpus::open(plan.job));
  state->stream = options.device->make_stream();
  QD_ASSIGN_OR_RETURN(state->pool,
                      Pool::create({.device = options.device,
                                    .limit = plan.rank_limit,
                                    .name = "rank " + std::to_string(world.rank().value) + ", " +
                                            options.device->name()}));
  QD_ASSIGN_OR_RETURN(state->model, Transformer::create(plan.job.model));
  QD_RETURN_IF_ERROR(bind_parameters(*state));
  QD_RETURN_IF_ERROR(bind_batch(*state));
  const ActivationArena arena =
      activation_arena(plan.job.model, {plan.micro_batch, plan.job.training.sequence},
                       plan.program.ranks[static_cast<std::size_t>(world.rank().value)]);
  QD_ASSIGN_OR_RETURN(state->activations, Activations::create(arena, *state->pool));
  return state;
}

Result<void> build_shared(RankState& state) {
  QD_RETURN_IF_ERROR(bind_gradients(state));
  QD_RETURN_IF_ERROR(bind_optimizer(state));
  const CheckpointSpec& checkpoint = state.plan->job.checkpoint;
  QD_ASSIGN_OR_RETURN(
      state.saver, CheckpointSaver::create(
                       {.directory = checkpoint_directory(*state.plan, state.options.run_directory),
                        .keep = checkpoint.keep,
                        .asynchronous = checkpoint.asynchronous,
                        .rank = state.world->rank(),
                        .ranks = state.world->size(),
                        .stream = state.stream.get(),
                        .pool = state.pool.get(),
                        .events = state.options.events},
                       checkpoint_tensors(state)));
  return {};
}

std::vector<CheckpointTensor> checkpoint_tensors(const RankState& state) {
  std::vector<CheckpointTensor> tensors;
  const std::vector<Parameter>& parameters = state.model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].shape.name;
    const int index = static_cast<int>(i);
    tensors.push_back({name, parameters[i].value});
    tensors.push_back({"optimizer.first_moment." + name, state.optimizer->first_moment(index)});
    tensors.push_back({"optimizer.second_moment." + name, state.optimizer->second_moment(index)});
  }
  return tensors;
}

}  // namespace quadrille::internal
