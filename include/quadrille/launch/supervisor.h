// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Starts the ranks of one run and watches them to the end: `threads` is one child process that
// hosts all ranks, `mpi` is mpirun, or srun in a Slurm allocation, with one process per rank. The
// first rank that fails stops the others within 3 seconds; the result says which it was, why, and
// its last lines. The first signal asks all ranks to save and stop, the second ends them at once.
// If the launcher itself dies, its ranks notice and end.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/launch/run_directory.h"
#include "quadrille/launch/signal_pipe.h"

namespace quadrille {

/// The Slurm allocation that the launcher runs in, as its environment tells.
struct SlurmAllocation {
  std::string job;
  std::optional<int> tasks;  ///< As asked for with -n; nothing: as many as CPUs allow.
};

struct LaunchRequest {
  RunPaths paths;
  std::string run_id;
  int ranks = 1;
  std::string backend = "threads";  ///< or "mpi"
  std::string host_file;            ///< mpirun's format; empty: this host, or the allocation's.
  std::optional<SlurmAllocation> slurm;  ///< mpi without a host file then starts ranks by srun.
  std::vector<std::string> command;      ///< What a rank process runs, e.g. {self, "rank"}.
  std::string resume = "never";          ///< Passed on to the ranks.
  std::vector<std::pair<std::string, std::string>> environment;  ///< Added to this process's own.
  Seconds start_timeout = Seconds(120);  ///< For all ranks to greet; 0: for ever.
  std::optional<Seconds> stop_grace;  ///< A stop that lasts longer becomes an abort; none: waits.
  std::size_t last_lines = 20;        ///< Kept of the failing rank's output.
};

/// What would run, exactly; the address and secret of the channel are made at the start and stand
/// here as `<...>`.
struct LaunchCommand {
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  ///< What is added.
};
/// Errors: kInvalid for an unknown backend, an empty command, a host file with threads, more ranks
/// than the allocation has tasks; kNotFound for a host file that does not exist.
[[nodiscard]] Result<LaunchCommand> launch_command(const LaunchRequest& request);
/// Ranks are started by srun.
[[nodiscard]] bool uses_srun(const LaunchRequest& request);
/// One line for a shell: `NAME=value ... program arguments`.
[[nodiscard]] std::string to_text(const LaunchCommand& command);

enum class LaunchOutcome : std::uint8_t {
  kDone,     ///< All ranks finished.
  kStopped,  ///< On request, with the state saved.
  kFailed,   ///< A rank reported an error or exited with one.
  kLost,     ///< A rank was killed or vanished.
  kAborted,  ///< By the second signal.
};
inline constexpr EnumTable<LaunchOutcome, 5> kLaunchOutcomeText{
    {{{LaunchOutcome::kDone, "done"},
      {LaunchOutcome::kStopped, "stopped"},
      {LaunchOutcome::kFailed, "failed"},
      {LaunchOutcome::kLost, "lost"},
      {LaunchOutcome::kAborted, "aborted"}}}};

struct LaunchResult {
  LaunchOutcome outcome = LaunchOutcome::kDone;
  std::optional<Rank> culprit;          ///< The first rank that failed, where it is known.
  std::optional<Error> error;           ///< Why, in one sentence; set for kFailed and kLost.
  std::string place;                    ///< "step 17", where the rank said so.
  std::vector<std::string> last_lines;  ///< Of the culprit, oldest first.
};

/// 0 done, 75 stopped, 1 failed, 2 failed because the request was wrong (kInvalid, kNotFound),
/// 3 lost, 130 aborted.
[[nodiscard]] int exit_code(const LaunchResult& result);

/// What the launcher does beside watching.
struct SupervisorHooks {
  SignalPipe* signals = nullptr;       ///< Null: signals are somebody else's.
  std::function<void()> on_tick;       ///< At least every 100 ms, and once after the end.
  std::function<void()> on_stop;       ///< The first signal has arrived.
  std::function<void()> on_all_ranks;  ///< Every rank has greeted.
};

/// Blocks until all processes of the run have ended. Makes the run's FlightTable, clears stale
/// shared memory first and removes the table at the end. Call it from the thread that lives as long
/// as the process (children die with the thread that started them).
/// Errors: those of launch_command and of starting; a run that fails is a result.
[[nodiscard]] Result<LaunchResult> supervise(const LaunchRequest& request,
                                             const SupervisorHooks& hooks);

}  // namespace quadrille
