// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/observe/stopwatch.h"

#include <utility>

namespace quadrille {

void Stopwatch::restart() {
  spent_.fill(Seconds());
  started_ = entered_ = monotonic_now();
  phase_ = Phase::kOther;
}

Phase Stopwatch::enter(Phase phase) {
  const Seconds now = monotonic_now();
  spent_[static_cast<std::size_t>(phase_)] += now - entered_;
  entered_ = now;
  return std::exchange(phase_, phase);
}

Seconds Stopwatch::total() const { return monotonic_now() - started_; }

}  // namespace quadrille
