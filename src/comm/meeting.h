// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One group's place to meet, in memory that all its ranks map: threads of a process or processes of
// a host. Each rank posts its call and where its tensor lies, and arrives; when all have arrived,
// every rank may read what the others posted, and reach the memory behind it, until it has left.
//
// A rank that gives up must not leave a peer reading memory that is about to be freed. So one word
// decides each round for all: either the last rank arrives and the round is complete for everybody,
// or the first that gives up marks the meeting broken and no later arrival counts.

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/call.h"
#include "comm/group.h"
#include "comm/watch.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

/// Where a rank's memory lies, as its peers find it.
struct Location {
  static constexpr std::int64_t kNowhere = -1;
  std::int64_t region = kNowhere;
  std::uint64_t offset = 0;
};

/// What one rank shows its peers for one round; of its own cache line.
struct alignas(64) Post {
  std::atomic<std::uint64_t> round{0};  ///< That the rest belongs to.
  std::atomic<std::uint64_t> left{0};   ///< The last round that this rank is done with.
  std::uint64_t call = 0;               ///< Hash of the posted call.
  Location location;
  std::uint64_t bytes = 0;  ///< Of a gather.
};

/// A posted call in full, looked at where hashes differ. Longer texts are cut.
struct PostText {
  std::array<char, 32> operation{};
  std::array<char, 128> place{};
  std::int64_t bytes = 0;
  std::int64_t root = -1;
};

/// What a backend knows about the ranks of a meeting besides their arrivals.
class Peers {
 public:
  virtual ~Peers() = default;
  /// A peer that will never come: failed (kAborted), gone or returned (kUnavailable).
  [[nodiscard]] virtual std::optional<Error> lost(const Awaited& awaited) = 0;
  /// Whether a rank may vanish within a collective, as processes may and threads may not.
  [[nodiscard]] virtual bool may_vanish() const = 0;
  /// Why nothing communicates any more, if so.
  [[nodiscard]] virtual std::optional<Error> broken() const { return std::nullopt; }
  /// This rank gave up a wait.
  virtual void give_up(const Error&) {}
};

/// One rank's view of the meeting.
class Meeting {
 public:
  /// Small gathers travel inside the meeting's memory.
  static constexpr std::size_t kInlineBytes = 4096;

  [[nodiscard]] static Bytes memory_bytes(int ranks);  ///< A multiple of 64 bytes.
  /// Makes `memory` (aligned to 64 bytes) a place to meet, before any rank has a view of it.
  static void prepare(void* memory, int ranks);

  Meeting(void* memory, Group group, Peers& peers);

  /// Posts this rank's call and waits until all have posted the same one. Errors: kInvalid where
  /// the calls differ, the watch's, or that of the rank which gave up first.
  [[nodiscard]] Result<void> meet(const Call& call, Location location, std::uint64_t bytes);
  /// What a rank posted for the round under way.
  [[nodiscard]] const Post& post(int rank) const { return slot(rank).posts[round_ % 2]; }
  /// Where a rank's gathered bytes lie, if they fit.
  [[nodiscard]] char* inline_bytes(int rank) const { return slot(rank).bytes[round_ % 2].data(); }
  /// The same for this rank's next round.
  [[nodiscard]] char* next_inline_bytes() const {
    return slot(group_.me).bytes[(round_ + 1) % 2].data();
  }
  /// Waits until no rank needs this round's memory any more. Where ranks cannot vanish they only
  /// compute, so nothing ends this wait early; one that never comes ends the process.
  [[nodiscard]] Result<void> leave(const Call& call);

  [[nodiscard]] Peers& peers() const { return peers_; }

 private:
  static constexpr std::uint64_t kBroken = std::uint64_t{1} << 63;
  class Absent;
  /// Two rounds are kept: a rank may post its next while a peer still reads the last.
  struct Slot {
    std::array<Post, 2> posts;
    std::array<PostText, 2> texts;
    std::array<std::array<char, kInlineBytes>, 2> bytes;
  };
  struct Head {
    alignas(64) std::atomic<std::uint64_t> arrivals{0};  ///< Of all ranks and rounds; kBroken.
    alignas(64) std::atomic<std::uint32_t> claim{0};     ///< 1: somebody writes the error.
    std::int32_t code = 0;
    std::array<char, 1024> message{};
  };

  [[nodiscard]] Slot& slot(int rank) const { return slots_[rank]; }
  [[nodiscard]] bool count_in();
  [[nodiscard]] bool complete(std::uint64_t word) const {
    return (word & ~kBroken) >= round_ * static_cast<std::uint64_t>(group_.size());
  }
  [[nodiscard]] Result<void> arrive(const Call& call);
  [[nodiscard]] Result<void> give_up(Error error);
  [[nodiscard]] Error broken_error() const;
  [[nodiscard]] Result<void> compare() const;
  void post_call(const Call& call, Location location, std::uint64_t bytes);

  Head& head_;
  Slot* slots_;
  Group group_;
  Peers& peers_;
  std::uint64_t round_ = 0;
};

}  // namespace quadrille::internal
