// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory in whole pages that nobody may touch, opened for the operands of one operation at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "quadrille/device/device.h"

namespace quadrille::testing {

class GuardedMemory {
 public:
  ~GuardedMemory();
  [[nodiscard]] Result<void*> allocate(std::size_t bytes);
  /// QD_CHECKs that the memory is one of ours.
  void release(void* memory);
  /// QD_CHECKs that every operand lies within one allocation.
  void check_within(std::span<const Operand> operands) const;
  void open(std::span<const Operand> operands) { protect(operands, true); }
  void close(std::span<const Operand> operands) { protect(operands, false); }

 private:
  void protect(std::span<const Operand> operands, bool open) const;
  std::map<std::uintptr_t, std::size_t> allocations_;  ///< Start and bytes asked for.
};

}  // namespace quadrille::testing
