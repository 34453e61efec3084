// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Each rank's last collectives, in memory that outlives its process: a file in /dev/shm that every
// rank of the host and the launcher map. On a stall the rings are compared and the rank that is
// absent, or called something else, is named. Writing an entry costs a few stores; nothing locks.
// One thread writes a rank's ring; anyone may read it at any time, and never sees half an entry.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille {

/// One collective as its rank saw it.
struct FlightEntry {
  std::uint64_t group = 0;     ///< Hash of the communicator's rank set.
  std::uint64_t sequence = 0;  ///< Counts this group's collectives on this rank, from 1.
  std::string operation;       ///< "all_reduce", at most 23 characters.
  std::int64_t bytes = 0;
  std::string place;  ///< "bucket 3", at most 47 characters.
  bool finished = false;
  double entered_seconds = 0;  ///< monotonic_now() of the host.
};

/// The table of one run on one host: a header (run id, ranks, launcher pid) and one ring per rank.
class FlightTable {
 public:
  /// Creates `/dev/shm/quadrille-<run id>` for `ranks` rings. Errors: kExhausted, kInternal.
  [[nodiscard]] static Result<FlightTable> create(const std::string& run_id, int ranks);
  /// Maps an existing table. Errors: kNotFound, kCorrupt.
  [[nodiscard]] static Result<FlightTable> open(const std::string& run_id);
  /// The run's table on this host: opened, or made where the launcher runs on another one. Several
  /// processes may call it at once; the one that made it owns it (is_own) and removes it at its
  /// end.
  [[nodiscard]] static Result<FlightTable> join(const std::string& run_id, int ranks);
  FlightTable(FlightTable&&) noexcept;
  FlightTable& operator=(FlightTable&&) noexcept;
  ~FlightTable();  ///< Unmaps; the file stays until remove().

  void remove();
  [[nodiscard]] bool is_own() const;  ///< This process created it.
  [[nodiscard]] int ranks() const;
  [[nodiscard]] int launcher() const;  ///< The pid of the process that created it.

  void set_process(Rank rank, int pid);  ///< 0 when the rank has returned.
  [[nodiscard]] int process(Rank rank) const;
  void set_step(Rank rank, std::int64_t step);  ///< The heartbeat carries progress, not only life.
  [[nodiscard]] std::int64_t step(Rank rank) const;
  void set_returned(Rank rank);  ///< The rank left its training function.
  [[nodiscard]] bool returned(Rank rank) const;

  /// Starts an entry; `finish` marks the rank's newest entry of the group done.
  void enter(Rank rank, const FlightEntry& entry);
  void finish(Rank rank, std::uint64_t group);
  /// The newest `most` entries of a rank, oldest first.
  [[nodiscard]] std::vector<FlightEntry> entries(Rank rank, std::size_t most = 16) const;

 private:
  struct Mapping;
  explicit FlightTable(std::unique_ptr<Mapping> mapping);
  std::unique_ptr<Mapping> mapping_;
};

/// Who holds up the collective `sequence` of `group` among `members` (world ranks), in one
/// sentence: "rank 2 (pid 411) has returned, last in all_reduce #17 at bucket 3", "rank 1 calls
/// broadcast of 8 bytes at X where the others call all_reduce of ...", or nothing when all agree.
[[nodiscard]] std::optional<std::string> find_culprit(const FlightTable& table, std::uint64_t group,
                                                      std::uint64_t sequence,
                                                      const std::vector<Rank>& members);

/// Removes tables and segments in /dev/shm whose processes are all dead; returns their names.
[[nodiscard]] std::vector<std::string> remove_stale_shared_memory();

}  // namespace quadrille
