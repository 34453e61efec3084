// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The contract of a run: the effective job, the layout that was chosen and why, the Program, and
// what each rank's memory and each phase is expected to take. The trainer reads nothing else.
// Immutable.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/config/tensor_share.h"
#include "quadrille/mesh/mesh.h"
#include "quadrille/schedule/program.h"

namespace quadrille {

/// What the plan assumes about the machine, measured or read by whoever calls make_plan.
struct MachineFacts {
  int cores = 1;    ///< Usable by all ranks together.
  Bytes memory;     ///< Usable by all ranks together; 0: unknown.
  Bytes disk_free;  ///< In the run's folder; 0: unknown.
  std::string processor;
  std::string fingerprint;                      ///< Hash of the above hardware facts.
  std::optional<double> peak_flops_per_second;  ///< fp32, of all cores; nothing: unknown.
  std::string peak_source;  ///< Where that figure comes from; "unknown" without one.
  std::string backend = "threads";
};

struct Plan {
  JobSpec job;  ///< With every "auto" replaced by its choice.
  MeshDegrees mesh;
  MachineFacts machine;
  std::int64_t micro_batch = 1;    ///< Sequences of one forward on one rank.
  std::int64_t micro_batches = 1;  ///< Of one step on one rank.
  Program program;
  Bytes activation_arena;  ///< Total of the arena's layout.
  std::map<std::string, Bytes>
      rank_bytes;          ///< Per rank, by MemoryTag text; checkpoint staging included.
  Bytes rank_limit;        ///< Enforced by the rank's pool; 0: none (a custom model, no facts).
  Bytes checkpoint_bytes;  ///< Of one checkpoint on disk.
  std::optional<Seconds> step_seconds;  ///< Predicted; nothing while no cost is known.
  std::vector<std::string> reasons;     ///< One decision a line.

  [[nodiscard]] int ranks() const { return mesh.pipeline * mesh.data * mesh.context * mesh.tensor; }
  [[nodiscard]] Coordinates coordinates(Rank rank) const;
  /// The rank's place on the tensor axis.
  [[nodiscard]] TensorShare tensor_share(Rank rank) const;
  /// Slot in the global batch of a rank's first sequence; its others follow.
  [[nodiscard]] std::int64_t first_slot(Rank rank) const;
};

/// Pure and deterministic. Errors: kInvalid (more ranks than sequences, batch that does not divide,
/// ...) with paths, kExhausted (does not fit, by how much, what would make it fit).
[[nodiscard]] Result<Plan> make_plan(const JobSpec& job, const MachineFacts& machine);

[[nodiscard]] Json to_json(const Plan& plan);
/// Errors: kInvalid for another version or a plan that does not verify.
[[nodiscard]] Result<Plan> plan_from(const Json& json);

/// Lines for people: layout, memory by tag, reasons.
[[nodiscard]] std::string explain(const Plan& plan);

}  // namespace quadrille
