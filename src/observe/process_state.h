// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether a process of this host lives, as /proc says it.

#include <cstdint>

namespace quadrille::internal {

enum class ProcessState : std::uint8_t { kRunning, kStopped, kDead };

/// A zombie is dead: it will do nothing more. A process without entry in /proc is dead too.
[[nodiscard]] ProcessState process_state(int pid);

}  // namespace quadrille::internal
