// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a step's time goes on one rank: every moment belongs to exactly one phase, so the phases
// sum to the step. A collective's waiting is exposed communication as long as nothing overlaps it.

#include <array>
#include <cstdint>

#include "quadrille/base/units.h"

namespace quadrille {

enum class Phase : std::uint8_t { kOther, kCompute, kCommunication, kBubble, kData };
inline constexpr std::size_t kPhaseCount = 5;

class Stopwatch {
 public:
  Stopwatch() { restart(); }
  /// Zeroes all phases and starts in kOther.
  void restart();
  /// Time since the last call goes to the former phase; returns it.
  Phase enter(Phase phase);
  [[nodiscard]] Seconds in(Phase phase) const { return spent_[static_cast<std::size_t>(phase)]; }
  /// Since restart(), the running phase included.
  [[nodiscard]] Seconds total() const;

 private:
  std::array<Seconds, kPhaseCount> spent_{};
  Seconds started_;
  Seconds entered_;
  Phase phase_ = Phase::kOther;
};

/// Enters a phase for a scope and the former one at its end.
class PhaseScope {
 public:
  PhaseScope(Stopwatch& watch, Phase phase) : watch_(watch), former_(watch.enter(phase)) {}
  ~PhaseScope() { watch_.enter(former_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Stopwatch& watch_;
  Phase former_;
};

}  // namespace quadrille
