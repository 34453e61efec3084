// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The flight recorder as it lies in shared memory: plain words, all of them atomic, so that a
// process that dies at any instant leaves a table that the others can still read. An entry is
// guarded by a sequence lock; one that its writer left half written is skipped.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "quadrille/observe/flight_recorder.h"

namespace quadrille::internal {

/// "QDFLIGHT", and the version of this layout.
inline constexpr std::uint64_t kFlightMagic = 0x544847494C464451;
inline constexpr std::uint32_t kFlightVersion = 1;
inline constexpr std::size_t kFlightSlots = 128;  ///< Per rank.
inline constexpr std::size_t kFlightRunIdBytes = 128;

class FlightSlot {
 public:
  void write(const FlightEntry& entry);
  void finish() { finished_.store(1, std::memory_order_release); }
  /// Nothing where the slot was never written, or is half written and stays so.
  [[nodiscard]] std::optional<FlightEntry> read() const;

 private:
  struct Packed {
    std::uint64_t group;
    std::uint64_t sequence;
    std::int64_t bytes;
    double entered_seconds;
    char operation[24];
    char place[48];
  };
  static constexpr std::size_t kWords = sizeof(Packed) / 8;
  static_assert(sizeof(Packed) % 8 == 0);

  std::atomic<std::uint64_t> version_;  ///< Odd while being written; 0 when never written.
  std::atomic<std::uint64_t> words_[kWords];
  std::atomic<std::uint64_t> finished_;
};

struct FlightRing {
  std::atomic<std::int64_t> pid;
  std::atomic<std::int64_t> step;
  std::atomic<std::int64_t> returned;
  std::atomic<std::uint64_t>
      written;  ///< Entries so far; the newest is in slot (written-1) % kFlightSlots.
  FlightSlot slots[kFlightSlots];
};

struct FlightHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::int32_t ranks;
  std::int64_t launcher_pid;
  char run_id[kFlightRunIdBytes];
  std::atomic<std::uint64_t> complete;  ///< 1 once all of the above is written.
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the table is shared by processes");

}  // namespace quadrille::internal
