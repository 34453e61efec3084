// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "observe/flight_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

namespace quadrille::internal {
namespace {

template <std::size_t N>
void copy_text(char (&target)[N], const std::string& source) {
  const std::size_t count = std::min(source.size(), N - 1);
  std::memcpy(target, source.data(), count);
  std::memset(target + count, 0, N - count);
}

template <std::size_t N>
std::string text_of(const char (&source)[N]) {
  return std::string(source, strnlen(source, N));
}

}  // namespace

// Release stores and acquire loads keep the words between the two changes of the version.
void FlightSlot::write(const FlightEntry& entry) {
  Packed packed{entry.group, entry.sequence, entry.bytes, entry.entered_seconds, {}, {}};
  copy_text(packed.operation, entry.operation);
  copy_text(packed.place, entry.place);
  std::uint64_t words[kWords];
  std::memcpy(words, &packed, sizeof packed);

  const std::uint64_t odd = version_.load(std::memory_order_relaxed) | 1;
  version_.store(odd, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
  finished_.store(entry.finished ? 1 : 0, std::memory_order_release);
  version_.store(odd + 1, std::memory_order_release);
}

std::optional<FlightEntry> FlightSlot::read() const {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::uint64_t before = version_.load(std::memory_order_acquire);
    if (before == 0) return std::nullopt;
    std::uint64_t words[kWords];
    for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
    const bool finished = finished_.load(std::memory_order_acquire) != 0;
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) {
      Packed packed;
      std::memcpy(&packed, words, sizeof packed);
      return FlightEntry{packed.group,          packed.sequence,       text_of(packed.operation),
                         packed.bytes,          text_of(packed.place), finished,
                         packed.entered_seconds};
    }
    std::this_thread::yield();
  }
  return std::nullopt;
}

}  // namespace quadrille::internal
