// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// plan.json: written once by the launcher, read by every rank, so that all of them follow one plan.

#include <fmt/format.h>

#include "plan/program_json.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/config/layout.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/plan/plan.h"
#include "quadrille/schedule/verify.h"

namespace quadrille {
namespace {

constexpr std::int64_t kVersion = 1;

Json machine_json(const MachineFacts& machine) {
  Json peak;
  if (machine.peak_flops_per_second) peak = Json(*machine.peak_flops_per_second);
  return Json::object()
      .set("cores", machine.cores)
      .set("memory_bytes", machine.memory.count())
      .set("disk_free_bytes", machine.disk_free.count())
      .set("processor", machine.processor)
      .set("fingerprint", machine.fingerprint)
      .set("peak_flops_per_second", std::move(peak))
      .set("peak_source", machine.peak_source)
      .set("backend", machine.backend);
}

MachineFacts machine_from(const Json& json) {
  MachineFacts machine;
  machine.cores = static_cast<int>(json.integer_or("cores", 1));
  machine.memory = Bytes(json.integer_or("memory_bytes", 0));
  machine.disk_free = Bytes(json.integer_or("disk_free_bytes", 0));
  machine.processor = json.string_or("processor", "");
  machine.fingerprint = json.string_or("fingerprint", "");
  const Json* peak = json.find("peak_flops_per_second");
  if (peak != nullptr && peak->is_number()) machine.peak_flops_per_second = peak->as_number();
  machine.peak_source = json.string_or("peak_source", "unknown");
  machine.backend = json.string_or("backend", "threads");
  return machine;
}

Json mesh_json(const MeshDegrees& mesh) {
  return Json::object()
      .set("pipeline", mesh.pipeline)
      .set("data", mesh.data)
      .set("context", mesh.context)
      .set("tensor", mesh.tensor);
}

Result<MeshDegrees> mesh_from(const Json& json) {
  const auto degree = [&json](std::string_view key) {
    const std::int64_t value = json.integer_or(key, 0);
    return value < 1 || value > (1 << 20) ? 0 : static_cast<int>(value);
  };
  const MeshDegrees mesh{degree("pipeline"), degree("data"), degree("context"), degree("tensor")};
  QD_RETURN_IF_ERROR(Mesh::create(mesh));
  return mesh;
}

const Json& member_or_null(const Json& json, std::string_view key) {
  static const Json kNull;
  const Json* member = json.find(key);
  return member == nullptr ? kNull : *member;
}

Result<Bytes> bytes_from(const Json& json, std::string_view key) {
  const std::int64_t count = json.integer_or(key, -1);
  if (count >= 0) return Bytes(count);
  return fail(Code::kInvalid, fmt::format("the plan's {} is no number of bytes", key));
}

Result<void> read_memory(const Json& json, Plan& plan) {
  QD_ASSIGN_OR_RETURN(plan.activation_arena, bytes_from(json, "activation_arena_bytes"));
  QD_ASSIGN_OR_RETURN(plan.rank_limit, bytes_from(json, "rank_limit_bytes"));
  QD_ASSIGN_OR_RETURN(plan.checkpoint_bytes, bytes_from(json, "checkpoint_bytes"));
  const Json& by_tag = member_or_null(json, "rank_bytes");
  if (!by_tag.is_object()) return fail(Code::kInvalid, "the plan has no rank_bytes");
  for (const auto& [tag, bytes] : by_tag.members()) {
    QD_ASSIGN_OR_RETURN(plan.rank_bytes[tag], bytes_from(by_tag, tag));
  }
  return {};
}

/// The file was written whole, but perhaps by another version or edited: its parts must agree.
Result<void> check_consistency(const Json& json, const Plan& plan) {
  const TrainingSpec& training = plan.job.training;
  const std::int64_t parameters = parameter_count(plan.job.model);
  if (json.integer_or("parameters", -1) != parameters) {
    return fail(Code::kInvalid,
                fmt::format("the plan was made for {} parameters, but its job's model has {}",
                            json.integer_or("parameters", -1), parameters));
  }
  if (plan.program.layers != layer_count(plan.job.model)) {
    return fail(Code::kInvalid,
                fmt::format("the plan's program has {} layers, but its job's model has {}",
                            plan.program.layers, layer_count(plan.job.model)));
  }
  const ParallelSpec& parallel = plan.job.parallel;
  if (parallel.data != plan.mesh.data || parallel.tensor != plan.mesh.tensor) {
    return fail(Code::kInvalid,
                fmt::format("the plan's mesh has {} x {} ranks (data, tensor), but its job says {}",
                            plan.mesh.data, plan.mesh.tensor, layout_text(parallel)));
  }
  const auto per_rank = checked_multiply(plan.micro_batch, plan.micro_batches);
  const auto covered = per_rank ? checked_multiply(*per_rank, plan.mesh.data) : std::nullopt;
  if (plan.micro_batch < 1 || covered != training.global_batch) {
    return fail(
        Code::kInvalid,
        fmt::format("the plan's {} micro-batches of {} sequences on {} data-parallel ranks are not "
                    "the job's global batch of {}",
                    plan.micro_batches, plan.micro_batch, plan.mesh.data, training.global_batch));
  }
  return verify(plan.program);
}

}  // namespace

Json to_json(const Plan& plan) {
  Json by_tag = Json::object();
  for (const auto& [tag, bytes] : plan.rank_bytes) by_tag.set(tag, bytes.count());
  Json reasons = Json::array();
  for (const std::string& reason : plan.reasons) reasons.push(reason);
  Json step_seconds;
  if (plan.step_seconds) step_seconds = Json(plan.step_seconds->count());
  return Json::object()
      .set("version", kVersion)
      .set("parameters", parameter_count(plan.job.model))
      .set("mesh", mesh_json(plan.mesh))
      .set("micro_batch", plan.micro_batch)
      .set("micro_batches", plan.micro_batches)
      .set("step_seconds", std::move(step_seconds))
      .set("rank_bytes", std::move(by_tag))
      .set("activation_arena_bytes", plan.activation_arena.count())
      .set("rank_limit_bytes", plan.rank_limit.count())
      .set("checkpoint_bytes", plan.checkpoint_bytes.count())
      .set("reasons", std::move(reasons))
      .set("machine", machine_json(plan.machine))
      .set("job", to_json(plan.job))
      .set("program", internal::program_json(plan.program));
}

Result<Plan> plan_from(const Json& json) {
  const std::int64_t version = json.integer_or("version", 0);
  if (version != kVersion) {
    return fail(Code::kInvalid,
                fmt::format("the plan has version {}, this Quadrille reads {}", version, kVersion));
  }
  Plan plan;
  QD_ASSIGN_OR_RETURN(plan.job, parse_job({.file = "the plan's job",
                                           .text = write_json(member_or_null(json, "job")),
                                           .overrides = {}}));
  QD_ASSIGN_OR_RETURN(plan.mesh, mesh_from(member_or_null(json, "mesh")));
  plan.machine = machine_from(member_or_null(json, "machine"));
  plan.micro_batch = json.integer_or("micro_batch", 0);
  QD_ASSIGN_OR_RETURN(plan.program,
                      internal::program_from(member_or_null(json, "program"), plan.ranks()));
  plan.micro_batches = plan.program.micro_batches;
  QD_RETURN_IF_ERROR(read_memory(json, plan));
  const Json& step_seconds = member_or_null(json, "step_seconds");
  if (step_seconds.is_number()) plan.step_seconds = Seconds(step_seconds.as_number());
  const Json& reasons = member_or_null(json, "reasons");
  if (reasons.is_array()) {
    for (const Json& reason : reasons.elements()) {
      if (reason.is_string()) plan.reasons.push_back(reason.as_string());
    }
  }
  QD_RETURN_IF_ERROR(check_consistency(json, plan));
  return plan;
}

}  // namespace quadrille
