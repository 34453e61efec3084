// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One rank's training run: builds what the Plan says, resumes, then interprets the Program step by
// step until the last step, a stop or a failure that all ranks agree on.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/log.h"
#include "quadrille/base/result.h"
#include "quadrille/comm/world.h"
#include "quadrille/device/device.h"
#include "quadrille/observe/profile.h"
#include "quadrille/observe/run_record.h"
#include "quadrille/plan/plan.h"

namespace quadrille {

enum class ResumePolicy : std::uint8_t { kAuto, kRequired, kNever };
inline constexpr EnumTable<ResumePolicy, 3> kResumePolicyText{
    {{{ResumePolicy::kAuto, "auto"},
      {ResumePolicy::kRequired, "required"},
      {ResumePolicy::kNever, "never"}}}};

/// All pointers outlive the call.
struct TrainerOptions {
  const Plan* plan = nullptr;
  std::string run_directory;
  ResumePolicy resume = ResumePolicy::kNever;
  Device* device = nullptr;
  EventLog* events = nullptr;
  Logger* log = nullptr;
  FlightTable* recorder = nullptr;  ///< Null records no heartbeat.
  const StopSignal* stop = nullptr;
  Profiler* profiler = nullptr;  ///< This rank's; null measures nothing.
  bool saves = true;             ///< Without, no checkpoint is written: for measurements.
  /// Called after each step, outside of its time; an error ends the run. The other ranks wait at
  /// the next collective meanwhile.
  std::function<Result<void>(const StepRecord&)> after_step = {};
};

struct TrainingOutcome {
  std::int64_t steps_done = 0;
  bool ended_early = false;  ///< training.patience ran out; the run is done.
  bool stopped = false;      ///< Ended early on request, with the state saved.
  double last_loss = 0;
  std::optional<double> last_validation_loss;
};

/// Collective over the world. Errors: the agreed failure, kNotFound for a required checkpoint that
/// does not exist, kInvalid for one of another model or job.
[[nodiscard]] Result<TrainingOutcome> train(World& world, const TrainerOptions& options);

}  // namespace quadrille
