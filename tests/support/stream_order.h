// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is ordered before what on a device with several streams, as the program states it: the order
// within a stream, events and waits between streams, and synchronize(), which the host waits for.
// Two operations that touch the same bytes, one of them writing, must be ordered. The record is
// logical, so a missing wait is found on every run, not only when the timing is unlucky.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/device/device.h"

namespace quadrille::testing {

/// The newest operation of each stream that is ordered before a point; streams and operations
/// from 1.
using StreamClock = std::map<int, std::uint64_t>;

class StreamOrder {
 public:
  /// The next operation of `stream`. QD_CHECKs that it conflicts with no unordered one.
  std::uint64_t add(int stream, std::string_view operation, std::span<const Operand> operands);
  [[nodiscard]] StreamClock record(int stream) const;
  void wait(int stream, const StreamClock& event);
  /// The host has waited for all of the stream: later operations of any stream come after.
  void synchronize(int stream);
  /// QD_CHECKs that no operation that the host has not waited for touches these bytes.
  void check_released(const void* memory, std::size_t bytes) const;

 private:
  struct Range {
    const std::byte* first = nullptr;
    const std::byte* last = nullptr;  ///< One past the end.
    bool writes = false;
  };
  struct Pending {
    int stream = 0;
    std::uint64_t number = 0;
    std::string operation;
    std::vector<Range> ranges;
  };
  static std::vector<Range> ranges_of(std::span<const Operand> operands);
  static bool conflict(const std::vector<Range>& a, const std::vector<Range>& b);

  std::map<int, StreamClock> clocks_;  ///< By stream, its own newest operation included.
  StreamClock host_;                   ///< What the host has waited for.
  std::deque<Pending> pending_;
};

}  // namespace quadrille::testing
