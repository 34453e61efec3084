// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/rank_state.h"

#include "quadrille/kernels/projection.h"

namespace quadrille::internal {
namespace {

Shape whole_shape(const ParameterShape& parameter) {
  QD_CHECK(parameter.shape.size() == 1 || parameter.shape.size() == 2);
  if (parameter.shape.size() == 1) return {parameter.shape[0]};
  return {parameter.shape[0], parameter.shape[1]};
}

void declare_parameters(RankState& state) {
  for (const Parameter& parameter : state.model->parameters()) {
    state.tensors.push_back(
        {.name = parameter.shape.name,
         .shape = parameter.own_shape(),
         .decayed = parameter.shape.decayed,
         .contributions = parameter.contributions,
         .layer = parameter.shape.layer,
         .overwritten = parameter.overwritten,
         .partial = parameter.shape.gradient_placement.on(Axis::kTensor).is_partial(),
         .piece = parameter.piece,
         .whole = whole_shape(parameter.shape),
         .value = {},
         .gradient = {}});
  }
}

Result<void> bind_rounding(RankState& state) {
  const JobSpec& job = state.plan->job;
  if (job.training.precision == Precision::kFp32) return {};
  const std::int64_t elements =
      rounding_scratch(job.model, {state.plan->micro_batch, job.training.sequence},
                       state.plan->tensor_share(state.world->rank()));
  QD_ASSIGN_OR_RETURN(state.rounding_lease,
                      state.pool->lease(Bytes(elements) * element_bytes(DType::kF32),
                                        MemoryTag::kWorkspace, "rounded factors of products"));
  state.rounding = {.precision = kernels::bf16_products(),
                    .scratch = state.rounding_lease.view(DType::kF32, {elements})};
  return {};
}

/// Each on its own cache lines.
Result<void> bind_rounded_values(RankState& state) {
  // From stage 3 on a layer's values come and go: each product rounds what is there.
  if (state.plan->job.training.precision == Precision::kFp32 || state.sharding() >= 3) return {};
  const auto rounded_bytes = [](const Parameter& parameter) {
    return Bytes((2 * parameter.own_shape().elements() + 63) / 64 * 64);
  };
  Bytes total;
  for (const Parameter& parameter : state.model->parameters()) {
    if (parameter.shape.in_product) total += rounded_bytes(parameter);
  }
  QD_ASSIGN_OR_RETURN(state.rounded_lease, state.pool->lease(total, MemoryTag::kWorkspace,
                                                             "the parameters rounded to bf16"));
  Bytes offset;
  for (Parameter& parameter : state.model->parameters()) {
    if (!parameter.shape.in_product) continue;
    const Shape shape = parameter.own_shape();
    parameter.rounded = state.rounded_lease.view_at(offset, DType::kU8, {shape[0], 2 * shape[1]});
    offset += rounded_bytes(parameter);
  }
  return {};
}

}  // namespace

void round_values(RankState& state) {
  for (const Parameter& parameter : state.model->parameters()) {
    if (parameter.rounded.empty()) continue;
    kernels::to_bf16(*state.stream, parameter.value, parameter.rounded);
  }
}

Result<std::unique_ptr<RankState>> build_local(World& world, const TrainerOptions& options) {
  auto state = std::make_unique<RankState>();
  QD_RETURN_IF_ERROR(open_base(*state, world, options));
  const Plan& plan = *options.plan;
  QD_ASSIGN_OR_RETURN(state->model,
                      Transformer::create(plan.job.model, plan.tensor_share(world.rank())));
  declare_parameters(*state);
  QD_RETURN_IF_ERROR(bind_rounding(*state));
  QD_RETURN_IF_ERROR(bind_rounded_values(*state));
  return state;
}

namespace {

/// Ranks that share the layers reach each other's activations; their arenas are equally large then.
Result<void> bind_activations(RankState& state) {
  constexpr const char* kWhat = "the activation arena";
  const Plan& plan = *state.plan;
  const Rank rank = state.world->rank();
  const ActivationArena arena = activation_arena(
      plan.job.model, {plan.micro_batch, plan.job.training.sequence},
      plan.program.ranks[static_cast<std::size_t>(rank.value)], plan.tensor_share(rank));
  Result<Lease> lease = state.tensor_group->size() == 1
                            ? state.pool->lease(arena.layout.total, MemoryTag::kActivation, kWhat)
                            : state.tensor_group->lease(*state.pool, plan.activation_arena,
                                                        MemoryTag::kActivation, kWhat);
  if (!lease) return fail(std::move(lease).error());
  state.activations = Activations(arena, *std::move(lease));
  return {};
}

}  // namespace

Result<void> build_shared(RankState& state) {
  QD_RETURN_IF_ERROR(join_axes(state));
  QD_RETURN_IF_ERROR(bind_activations(state));
  QD_RETURN_IF_ERROR(bind_training(state, state.model->backward_order()));
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    state.model->parameters()[i].value = state.tensors[i].value;
    state.model->parameters()[i].gradient = state.tensors[i].gradient;
  }
  if (state.sharding() < 3) return {};
  const auto bind = [model = state.model.get()](int tensor, const TensorView& value) {
    model->parameters()[static_cast<std::size_t>(tensor)].value = value;
  };
  QD_ASSIGN_OR_RETURN(
      state.residency,
      ParameterResidency::create(state, {parameters_of_layers(state.plan->job.model), bind}));
  return {};
}

}  // namespace quadrille::internal
