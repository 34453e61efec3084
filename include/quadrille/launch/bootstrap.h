// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a rank process finds its run: the launcher passes a few environment variables, and this call
// (the one place outside launcher/ that reads the environment) turns them into the run directory,
// the plan and the control channel. `quadrille rank` starts with it, and so does any program
// started by `quadrille launch JOB -- PROGRAM`.

#include <functional>
#include <memory>
#include <string>

#include "quadrille/base/result.h"
#include "quadrille/launch/control_channel.h"
#include "quadrille/launch/run_directory.h"
#include "quadrille/plan/plan.h"

namespace quadrille {

// The bootstrap contract.
inline constexpr const char* kRunDirectoryVariable = "QUADRILLE_RUN_DIRECTORY";
inline constexpr const char* kRunIdVariable = "QUADRILLE_RUN_ID";
inline constexpr const char* kControlVariable = "QUADRILLE_CONTROL";  ///< host:port
inline constexpr const char* kTokenVariable = "QUADRILLE_TOKEN";
inline constexpr const char* kBackendVariable = "QUADRILLE_BACKEND";  ///< "threads" or "mpi"
inline constexpr const char* kResumeVariable = "QUADRILLE_RESUME";    ///< as --resume
inline constexpr const char* kProfileVariable = "QUADRILLE_PROFILE";  ///< set: ranks profile

struct Bootstrap {
  RunPaths paths;
  std::string run_id;  ///< Opens the run's FlightTable.
  std::string backend;
  std::string resume;  ///< "auto", "required" or "never".
  Plan plan;
  std::unique_ptr<ControlClient> control;
  bool profiles = false;  ///< Its ranks measure their operations.
  RankLock lock;          ///< Keeps a new launch out of the run directory while this process lives.
};

struct BootstrapOptions {
  /// See ControlClientOptions: must end the process. Empty: it ends with exit code 1, for nothing
  /// can be saved once the launcher is gone or an abort has not been heeded.
  std::function<void()> on_overdue = {};
};

/// Errors: kInvalid where a variable is absent (the program was not started by `quadrille launch`)
/// or the plan is not one; kNotFound, kUnavailable where directory or launcher are gone.
[[nodiscard]] Result<Bootstrap> bootstrap_from_environment(BootstrapOptions options = {});

}  // namespace quadrille
