// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// When a buffer must exist, by instruction index, and where in one arena it can then live.
// A buffer of life [first, last] may share bytes with any other whose life is disjoint.
// Source: greedy by size, Pisarchyk & Lee 2020, "Efficient memory management for deep neural net
// inference", section 5.3 (offset calculation); also by life and by size times life, the smallest
// wins.

#include <cstdint>
#include <span>
#include <vector>

#include "quadrille/base/units.h"
#include "quadrille/schedule/program.h"

namespace quadrille {

/// How a buffer's life follows from its layer, mirroring config's ActivationLife.
enum class BufferLife : std::uint8_t { kSaved, kOutput, kForward, kBackward, kGradient };

struct BufferRequest {
  std::int64_t layer = 0;
  Bytes bytes;
  BufferLife life = BufferLife::kSaved;
};

struct ArenaLayout {
  std::vector<Bytes> offsets;  ///< One per request, each a multiple of 64.
  Bytes total;
};

/// Lays the requests out for one rank's instructions. Every micro-batch uses the same offsets, so
/// the program may keep only one micro-batch in flight (single stage); QD_CHECK otherwise.
[[nodiscard]] ArenaLayout lay_out_arena(std::span<const Instruction> instructions,
                                        std::span<const BufferRequest> requests);

}  // namespace quadrille
