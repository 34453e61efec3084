// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// All ranks of a run and how they agree. A rank that fails never leaves its peers waiting: it votes
// at the next step boundary, or its silence is found by a deadline. Communicators are made here,
// one per distinct rank set, before parameters exist.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/ids.h"
#include "quadrille/base/log.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/comm/communicator.h"
#include "quadrille/observe/flight_recorder.h"

namespace quadrille {

/// What a rank brings to a step boundary.
struct Vote {
  std::optional<Error> error;  ///< This rank's failure in the step, if any.
  bool stop = false;           ///< A stop with saving was requested here.
  std::int64_t value = 0;      ///< Any number of the caller's; see Agreement::least_value.
};

/// The same on every rank.
struct Agreement {
  std::optional<Error> error;  ///< The lowest failing rank's, with "rank N: " before its message.
  Rank culprit;                ///< That rank.
  bool stop = false;           ///< Somebody asked.
  std::int64_t least_value = 0;
};

/// Looked at inside every wait. Implementations are cheap and may be called from any thread.
class StopSignal {
 public:
  virtual ~StopSignal() = default;
  /// Save at the next step boundary, then stop.
  [[nodiscard]] virtual bool stop_requested() const = 0;
  /// Give up every wait now (another rank failed, second signal, launcher gone).
  [[nodiscard]] virtual bool abort_requested() const = 0;
};

struct WorldOptions {
  Seconds timeout = Seconds(60);     ///< Of each wait.
  FlightTable* recorder = nullptr;   ///< Outlives the world; null records nothing.
  const StopSignal* stop = nullptr;  ///< Outlives the world; null never stops.
  Logger* log = nullptr;             ///< Outlives the world; null logs nothing.
  Bytes message = Bytes(1 << 20);    ///< Largest message between processes; more is cut.
  /// Processes of one host reduce in memory that all of them map; false sends messages.
  bool shared_memory = true;
  /// Names that memory, for those who clear up after a crash; empty: one is made up.
  std::string run_id;
};

class World {
 public:
  virtual ~World() = default;
  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual Rank local_rank() const = 0;  ///< Among the ranks of this host.
  [[nodiscard]] virtual int ranks_on_host() const = 0;
  [[nodiscard]] virtual std::string host() const = 0;
  /// "threads" or "mpi".
  [[nodiscard]] virtual std::string_view backend() const = 0;

  /// Host memory that the backend holds beside the rank's pools: to receive into (up to ranks - 1
  /// messages), its part of where processes of a host meet (272 KiB a group), and to carry tensors
  /// of devices that the host cannot touch (the largest of each group). It grows in the first steps
  /// only.
  [[nodiscard]] virtual Bytes staging() const = 0;

  /// The communicator of all ranks.
  [[nodiscard]] virtual Communicator& whole() = 0;
  /// The communicator of a rank set that contains this rank; one per distinct set, owned by the
  /// world. Collective over the whole world: every rank calls it in the same order with its own
  /// set.
  [[nodiscard]] virtual Result<Communicator*> group(std::span<const Rank> members) = 0;

  /// Every rank's vote becomes the one agreement. Collective.
  [[nodiscard]] Result<Agreement> agree(const Vote& vote);
};

/// The body of one rank; its World lives as long as the call.
using RankBody = std::function<Result<void>(World&)>;

/// Runs `ranks` ranks as threads of this process and returns when all have returned: nothing, or
/// the error of the lowest rank that failed by itself (not because a peer did). A rank that returns
/// an error makes every wait of the others end with kAborted.
[[nodiscard]] Result<void> run_threads(int ranks, const WorldOptions& options,
                                       const RankBody& body);

/// This process as one rank of an MPI job (MPI_Init_thread ... MPI_Finalize around the body). After
/// an error it does not finalize, so that mpirun stops the job. Errors: kUnavailable where this
/// build has no MPI or the process was not started by mpirun or srun.
[[nodiscard]] Result<void> run_mpi(const WorldOptions& options, const RankBody& body);

/// Whether this build can run MPI ranks.
[[nodiscard]] bool mpi_is_built();

}  // namespace quadrille
