// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A rank's memory that the other ranks of its host can reach: how processes of one host exchange
// gradients without copies through a pipe. The maker leases it like any memory; its peers open it
// by name. Names are `quadrille-<run id>-<what>`, so that leftovers of dead runs are found.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "quadrille/base/result.h"
#include "quadrille/base/shared_memory.h"
#include "quadrille/base/units.h"
#include "quadrille/memory/pool.h"

namespace quadrille {

/// `quadrille-<run id>-<what>`, e.g. what = "window-3-rank-0".
[[nodiscard]] std::string segment_name(std::string_view run_id, std::string_view what);

class SharedSegment {
 public:
  /// Errors: those of SharedMemory::create, of which kExhausted names what was asked for and why.
  [[nodiscard]] static Result<SharedSegment> create(std::string_view run_id, std::string_view what,
                                                    Bytes bytes,
                                                    int color = SharedMemory::kAnyColor);
  /// Errors: kNotFound.
  [[nodiscard]] static Result<SharedSegment> open(std::string_view run_id, std::string_view what,
                                                  int color = SharedMemory::kAnyColor);

  [[nodiscard]] std::span<std::byte> bytes() const { return memory_.bytes(); }
  [[nodiscard]] const std::string& name() const { return memory_.name(); }
  /// Takes the name away once all peers have opened it; the memory lives as long as its mappings,
  /// and a crash from then on leaves nothing behind.
  void unlink() { memory_.unlink(); }

  /// Hands the mapping to a lease of `pool`, counted under `tag` and against the pool's limit; it
  /// is unmapped with the lease. Host pools only. Errors: kExhausted.
  [[nodiscard]] static Result<Lease> into_lease(SharedSegment segment, Pool& pool, MemoryTag tag,
                                                std::string_view what);

 private:
  explicit SharedSegment(SharedMemory memory) : memory_(std::move(memory)) {}
  SharedMemory memory_;
};

}  // namespace quadrille
