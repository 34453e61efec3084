// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the rank threads of one process share. A ThreadMeeting is one group's place to meet: each
// rank posts its call and arrives; when all have arrived, every rank may read what the others
// posted, and the memory behind it, until it arrives at the next round.
//
// A rank that gives up must not leave a peer reading memory that is about to be freed. So one word
// decides each round for all: either the last rank arrives and the round is complete for everybody,
// or the first that gives up marks the meeting broken and no later arrival counts.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/group.h"
#include "comm/watch.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

/// What one rank shows its peers for one collective.
struct Post {
  PostedCall call;
  void* address = nullptr;
  std::string bytes;
};

class ThreadHub;

class ThreadMeeting {
 public:
  ThreadMeeting(ThreadHub& hub, std::vector<Rank> members);

  /// This rank's post of collective `sequence`. Two collectives' posts are kept, so that a rank may
  /// post its next one while a peer still reads the last.
  [[nodiscard]] Post& post(int rank, std::uint64_t sequence) {
    return slots_[static_cast<std::size_t>(rank)].posts[sequence % 2];
  }
  /// Arrives and waits for the others. Errors: the watch's, or that of the rank which gave up
  /// first.
  [[nodiscard]] Result<void> arrive(int rank, Watch& watch);
  /// Arrives and waits for ranks that are inside the same collective: they only compute, so nothing
  /// ends this wait early; a rank that never comes ends the process after `most`.
  void leave(int rank, bool always_yield, Seconds most);

  /// kInvalid when the posted calls differ.
  [[nodiscard]] Result<void> compare(std::uint64_t sequence) const;

 private:
  static constexpr std::uint64_t kBroken = std::uint64_t{1} << 63;
  class Absent;

  [[nodiscard]] bool count_in(int rank);
  [[nodiscard]] bool complete(std::uint64_t word, std::uint64_t round) const {
    return (word & ~kBroken) >= round * members_.size();
  }
  [[nodiscard]] Result<void> give_up(std::uint64_t round, Error error);
  [[nodiscard]] Error broken_error();

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> round{0};  ///< Rounds at which this rank has arrived.
    std::array<Post, 2> posts;
  };

  ThreadHub& hub_;
  std::vector<Rank> members_;
  std::vector<Slot> slots_;
  alignas(64) std::atomic<std::uint64_t> arrivals_{0};  ///< Of all ranks and rounds; kBroken.
  std::mutex mutex_;                                    ///< Guards the error.
  std::optional<Error> error_;
};

/// All ranks of a run: who has failed or returned, and where they meet.
class ThreadHub {
 public:
  ThreadHub(int ranks, const WorldOptions& options)
      : options_(options), returned_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] const WorldOptions& options() const { return options_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(returned_.size()); }
  /// The one meeting of a rank set, made by whoever asks first.
  [[nodiscard]] ThreadMeeting& meeting(const std::vector<Rank>& members);

  /// A rank's body has returned: with an error it ends the waits of all others.
  void set_returned(Rank rank, const Result<void>& result);
  /// Some rank has failed, or one of `missing` has returned.
  [[nodiscard]] std::optional<Error> lost(const std::vector<Rank>& missing) const;
  [[nodiscard]] bool any_returned() const { return any_returned_.load(std::memory_order_acquire); }

 private:
  WorldOptions options_;
  std::atomic<bool> any_returned_{false};
  mutable std::mutex mutex_;  ///< Guards all below.
  std::vector<char> returned_;
  std::optional<Error> failure_;  ///< Of the first rank that failed, as its peers see it.
  std::map<std::vector<Rank>, std::unique_ptr<ThreadMeeting>> meetings_;
};

}  // namespace quadrille::internal
