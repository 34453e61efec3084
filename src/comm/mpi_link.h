// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// This process's side of MPI, shared by all of its communicators: start and end, transfers that are
// polled and never block, and departures. A departure is the last message of a rank to every other:
// that it has returned, or the cause of its failure. It is looked at inside every wait.
//
// Open MPI cannot repair a communicator, so the first failed wait is the end: what was posted is
// cancelled, and where that does not succeed MPI is not called again, for it might write to memory
// that its owner has given back.

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/group.h"
#include "comm/watch.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {

/// Sends and receives that are under way together. Each is one message of at most INT_MAX bytes.
class Transfers {
 public:
  explicit Transfers(MPI_Comm communicator) : communicator_(communicator) {}
  // What MPI refuses is told by poll(), so that all that was posted is in one place to give up.
  void send(std::span<const std::byte> bytes, Rank peer, int tag);
  void receive(std::span<std::byte> bytes, Rank peer, int tag);
  /// Makes progress; true when nothing is left. Errors: kUnavailable with MPI's text.
  [[nodiscard]] Result<bool> poll();
  [[nodiscard]] std::vector<Rank> pending_peers() const;
  /// Gives up what is left. False where some of it could not be taken back.
  [[nodiscard]] bool cancel();

 private:
  void add(MPI_Request request, Rank peer, bool receiving);

  MPI_Comm communicator_;
  std::optional<Error> error_;
  std::vector<MPI_Request> requests_;
  std::vector<Rank> peers_;      ///< By request.
  std::vector<char> receiving_;  ///< By request.
  std::vector<int> indices_;     ///< Scratch of poll().
  std::size_t left_ = 0;
};

class MpiLink {
 public:
  /// MPI_Init_thread. Errors: kUnavailable when started by hand, kInvalid a second time.
  [[nodiscard]] static Result<std::unique_ptr<MpiLink>> start(const WorldOptions& options);

  [[nodiscard]] const WorldOptions& options() const { return options_; }
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] Rank local_rank() const { return local_rank_; }
  [[nodiscard]] int ranks_on_host() const { return ranks_on_host_; }
  /// The ranks of this host have fewer cores than they are, all that each may run on together.
  [[nodiscard]] bool exceeds_cores() const { return exceeds_cores_; }
  /// Whether all of them run on one host.
  [[nodiscard]] bool share_host(const std::vector<Rank>& ranks) const;
  /// The same on every rank, and no other run's on its hosts.
  [[nodiscard]] const std::string& run_id() const { return run_id_; }
  [[nodiscard]] Transfers transfers() const { return Transfers(communicator_); }

  /// Polls until all is done. Errors: the watch's, or why an earlier wait failed.
  [[nodiscard]] Result<void> wait(Transfers& transfers, Watch& watch);
  /// Why nothing communicates any more, if so.
  [[nodiscard]] const std::optional<Error>& broken() const { return broken_; }
  /// A wait without messages failed: nothing communicates any more.
  void give_up(const Error& error) { broken_ = broken_.value_or(error); }
  /// A rank that failed, one of `missing` that returned a while ago, or a process of this host
  /// among `members` that has died.
  [[nodiscard]] std::optional<Error> lost_among(const std::vector<Rank>& members,
                                                const std::vector<Rank>& missing);

  /// `bytes` of host memory that all groups receive into, one collective at a time.
  [[nodiscard]] Result<std::byte*> staging(Bytes bytes);
  [[nodiscard]] Bytes staging_bytes() const { return staging_.bytes(); }

  /// Tells every rank that this one is done, waits until all are, and ends MPI.
  [[nodiscard]] Result<void> finish(const Group& whole);
  /// Tells every rank why this one failed, as far as they take it within a moment. MPI stays open,
  /// so that mpirun sees the process end improperly and stops the job.
  void fail_with(const Error& error);

 private:
  class Absent;
  /// As it travels; a longer cause is cut.
  struct Departure {
    std::int32_t code = -1;  ///< Of the error; -1 for none.
    std::array<char, 508> message{};
  };
  struct Peer {
    Departure departure;
    MPI_Request request = MPI_REQUEST_NULL;
    std::optional<Seconds> departed;
    int host = 0;  ///< The lowest rank of its host.
    int pid = 0;
  };

  explicit MpiLink(const WorldOptions& options) : options_(options) {}
  [[nodiscard]] Result<void> learn_world();
  [[nodiscard]] Result<void> learn_peers(int first_of_host);
  [[nodiscard]] Result<void> expect_departures();
  void look_for_departures();
  /// A rank that failed, or one of `missing` that returned a while ago.
  [[nodiscard]] std::optional<Error> lost(const std::vector<Rank>& missing);
  void send_departures(Transfers& transfers, const Departure& departure);

  WorldOptions options_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  Rank rank_;
  int size_ = 0;
  Rank local_rank_;
  int ranks_on_host_ = 1;
  bool exceeds_cores_ = false;
  std::string run_id_;
  std::vector<Peer> peers_;  ///< By world rank; of this rank's own only the host is used.
  Seconds next_look_at_processes_;
  Departure own_departure_;
  std::optional<Error> broken_;
  bool unsafe_ = false;  ///< MPI may still write to memory of this process.
  std::unique_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
  Lease staging_;
};

}  // namespace quadrille::internal
