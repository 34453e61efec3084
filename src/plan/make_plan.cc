// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// From a job and a machine to a Plan: layout, Program, memory and disk, each checked before the
// first step could fail on it.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/layout_choice.h"
#include "plan/memory_model.h"
#include "quadrille/base/check.h"
#include "quadrille/base/text.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/plan/plan.h"
#include "quadrille/schedule/builders.h"
#include "quadrille/schedule/verify.h"

namespace quadrille {
namespace {

using internal::LayoutChoice;

/// What may be leased beyond the prediction: operations keep small scratch of their own.
constexpr Bytes kReserve = 32_MiB;

/// The prediction and a twentieth, but never more than there is.
Bytes limit_of_rank(Bytes predicted, Bytes available) {
  const Bytes wanted = predicted + Bytes(predicted.count() / 20) + kReserve;
  return available == Bytes(0) ? wanted : std::min(wanted, available);
}

/// Complete checkpoints that lie on the disk at the worst moment: the newest `keep` and the one
/// that is being written, but no more than the run makes.
std::int64_t checkpoints_at_once(const JobSpec& job) {
  const std::int64_t every = job.checkpoint.every;
  const std::int64_t steps = std::max<std::int64_t>(job.training.steps, 1);
  const std::int64_t made = every == 0 ? 1 : (steps + every - 1) / every;
  const bool has_best = job.checkpoint.keep_best && job.training.evaluate_every > 0;
  return std::min(made, job.checkpoint.keep + 1) + (has_best ? 1 : 0);
}

Result<void> check_disk(const JobSpec& job, const MachineFacts& machine, Bytes checkpoint) {
  if (machine.disk_free == Bytes(0)) return {};
  const std::int64_t count = checkpoints_at_once(job);
  const auto needed = checked_multiply(checkpoint.count(), count);
  if (needed && Bytes(*needed) <= machine.disk_free) return {};
  const Bytes missing = needed ? Bytes(*needed) - machine.disk_free : checkpoint;
  return fail(Code::kExhausted,
              fmt::format("not enough disk: {} checkpoints of {} ({} kept and one being written) "
                          "do not fit into {}, {} are missing; lower checkpoint.keep, or choose "
                          "another checkpoint.directory",
                          count, to_text(checkpoint), count - 1, to_text(machine.disk_free),
                          to_text(missing)));
}

std::string memory_reason(const JobSpec& job, const LayoutChoice& choice) {
  if (job.model.is_custom()) {
    return fmt::format("The memory of a program's own model is not planned: {}.",
                       choice.available == Bytes(0)
                           ? std::string("nothing limits a rank")
                           : "a rank may lease up to " + to_text(choice.available));
  }
  const std::string needed = to_text(choice.memory.total());
  if (choice.available == Bytes(0)) {
    return fmt::format("Each rank needs {}; how much memory there is, is unknown.", needed);
  }
  return fmt::format("Each rank needs {} of the {} that it may use.", needed,
                     to_text(choice.available));
}

/// What the ranks divide among themselves, where they divide anything.
std::string sharding_reason(const JobSpec& job, int ranks) {
  constexpr std::array kDivided = {"", "the optimizer's moments",
                                   "the optimizer's moments and the gradients",
                                   "the optimizer's moments, the gradients and the parameters"};
  const auto stage = static_cast<std::size_t>(job.parallel.sharding);
  if (ranks == 1) {
    return fmt::format("sharding={} as the job says: one rank has nothing to divide.", stage);
  }
  return fmt::format("sharding={} as the job says: each rank keeps 1/{} of {}.", stage, ranks,
                     kDivided.at(stage));
}

std::string disk_reason(const JobSpec& job, Bytes checkpoint) {
  const std::int64_t count = checkpoints_at_once(job);
  if (job.model.is_custom()) {
    return fmt::format("At most {} checkpoints lie on the disk at once; their size is not planned.",
                       count);
  }
  return fmt::format("A checkpoint takes {}; at most {} lie{} on the disk at once.",
                     to_text(checkpoint), count, count == 1 ? "s" : "");
}

std::string peak_reason(const JobSpec& job, const MachineFacts& machine) {
  if (job.model.is_custom()) {
    return "MFU will be null: the arithmetic of a program's own model is not known.";
  }
  if (!machine.peak_flops_per_second) {
    return fmt::format("MFU will be null: the processor's theoretical peak is {}.",
                       machine.peak_source.empty() ? "unknown" : machine.peak_source);
  }
  return fmt::format("MFU is measured against {:.1f} GFLOP/s: {}.",
                     *machine.peak_flops_per_second / 1e9, machine.peak_source);
}

/// The facts that hold for this job: the peak is that of fp32.
MachineFacts facts_for(const JobSpec& job, const MachineFacts& machine) {
  MachineFacts facts = machine;
  if (job.training.precision == Precision::kFp32) return facts;
  facts.peak_flops_per_second.reset();
  facts.peak_source =
      fmt::format("unknown for {} products", kPrecisionText.text(job.training.precision));
  return facts;
}

Result<void> check_sharding(const JobSpec& job) {
  if (!job.model.is_custom() || job.parallel.sharding <= 1) return {};
  return fail(Code::kInvalid,
              fmt::format("parallel.sharding {}: a program's own model can divide the optimizer's "
                          "moments at most (1), it holds its parameters and gradients itself",
                          job.parallel.sharding));
}

Result<Program> checked_program(const JobSpec& job, const LayoutChoice& choice) {
  const std::int64_t share = job.training.global_batch / choice.layout.data;
  QD_ASSIGN_OR_RETURN(Program program,
                      build_single_stage({.ranks = choice.layout.ranks(),
                                          .layers = layer_count(job.model),
                                          .micro_batches = share / choice.layout.micro_batch}));
  QD_RETURN_IF_ERROR(verify(program));
  return program;
}

}  // namespace

Coordinates Plan::coordinates(Rank rank) const {
  const auto made = Mesh::create(mesh);
  QD_CHECK(made.has_value());
  return made->coordinates(rank);
}

TensorShare Plan::tensor_share(Rank rank) const {
  return {.degree = mesh.tensor,
          .index = coordinates(rank)[static_cast<std::size_t>(Axis::kTensor)],
          .sequence = job.parallel.sequence};
}

std::int64_t Plan::first_slot(Rank rank) const {
  return coordinates(rank)[static_cast<std::size_t>(Axis::kData)] * micro_batch * micro_batches;
}

Result<Plan> make_plan(const JobSpec& job, const MachineFacts& machine) {
  if (job.model.vocab < 1) {
    return fail(Code::kInvalid,
                "model.vocab is not known: it is data.tokenizer's, which must be asked first");
  }
  QD_RETURN_IF_ERROR(check_sharding(job));
  QD_ASSIGN_OR_RETURN(LayoutChoice choice, internal::choose_layout(job, machine));
  const Bytes checkpoint = internal::checkpoint_size(job.model);
  QD_RETURN_IF_ERROR(check_disk(job, machine, checkpoint));

  Plan plan;
  plan.job = job;
  plan.job.parallel.data = choice.layout.data;
  plan.job.training.micro_batch = choice.layout.micro_batch;
  plan.mesh.data = choice.layout.data;
  plan.mesh.tensor = choice.layout.tensor;
  plan.machine = facts_for(job, machine);
  plan.micro_batch = choice.layout.micro_batch;
  QD_ASSIGN_OR_RETURN(plan.program, checked_program(job, choice));
  plan.micro_batches = plan.program.micro_batches;
  QD_CHECK(plan.micro_batch * plan.micro_batches * plan.mesh.data == job.training.global_batch);
  plan.activation_arena = choice.memory.activation_arena;
  if (!job.model.is_custom()) plan.rank_bytes = choice.memory.by_tag;
  plan.rank_limit = job.model.is_custom() ? choice.available
                                          : limit_of_rank(choice.memory.total(), choice.available);
  plan.checkpoint_bytes = job.model.is_custom() ? Bytes(0) : checkpoint;
  plan.reasons = std::move(choice.reasons);
  if (job.parallel.sharding > 0) {
    plan.reasons.push_back(sharding_reason(job, choice.layout.data));
  }
  plan.reasons.push_back(memory_reason(job, choice));
  plan.reasons.push_back(disk_reason(job, checkpoint));
  plan.reasons.push_back(peak_reason(job, plan.machine));
  return plan;
}

}  // namespace quadrille
