// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One direction of a pair's messages, in memory that both ranks map. The sender offers its tensor
// where it lies, the receiver takes it and says so. One word decides between a receiver that takes
// and a sender that gives up, so that nobody reads memory which is about to be freed.

#include <atomic>
#include <cstdint>

#include "comm/meeting.h"
#include "comm/mover.h"

namespace quadrille::internal {

struct alignas(64) Box {
  std::atomic<std::uint64_t> state{0};  ///< 8 times the message's number, plus a phase.
  std::int64_t bytes = 0;               ///< That the sender offers.
  std::int64_t wanted = 0;              ///< That the receiver expected, where it refuses.
  Location location;
};

class Mailbox {
 public:
  Mailbox(Box& box, Peers& peers, const PairCall& call);

  /// How an offer ended.
  enum class Outcome : std::uint8_t { kTaken, kByMessage };
  /// Offers memory and waits until the receiver is done with it, or asks for a message because it
  /// does not reach it. Errors: kInvalid where it expects another size, those of a watch.
  [[nodiscard]] Result<Outcome> offer(Location location, std::int64_t bytes);

  /// Waits for the offer of a message of `bytes`. The caller has until done() to copy it, or asks
  /// for a message. Errors: kInvalid for another size, those of a watch.
  [[nodiscard]] Result<Location> take(std::int64_t bytes);
  void done() { set(Phase::kTaken); }
  void ask_for_message() { set(Phase::kByMessage); }

 private:
  enum class Phase : std::uint8_t { kTaken, kOffered, kTaking, kByMessage, kRefused, kWithdrawn };
  class Other;
  [[nodiscard]] std::uint64_t word(Phase phase) const {
    return 8 * call_.call.sequence + static_cast<std::uint64_t>(phase);
  }
  [[nodiscard]] bool is(Phase phase) const {
    return box_.state.load(std::memory_order_acquire) == word(phase);
  }
  void set(Phase phase) { box_.state.store(word(phase), std::memory_order_release); }
  [[nodiscard]] bool change(Phase from, Phase to) {
    std::uint64_t expected = word(from);
    return box_.state.compare_exchange_strong(expected, word(to), std::memory_order_acq_rel);
  }
  [[nodiscard]] Result<void> withdraw(Error error);
  [[nodiscard]] Error difference() const;

  Box& box_;
  Peers& peers_;
  const PairCall& call_;
};

}  // namespace quadrille::internal
