// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host memory that snapshots are taken into, whatever device the tensors live on. It is allocated
// once and counted in the rank's pool.

#include <cstddef>
#include <span>

#include "quadrille/base/result.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {

class Staging {
 public:
  Staging() = default;
  /// Counted as workspace where there is a pool. Errors: kExhausted.
  [[nodiscard]] static Result<Staging> create(Bytes bytes, Pool* pool);
  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&& other) noexcept;
  ~Staging();
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  Lease lease_;  ///< Counts; the memory is released by this class.
};

}  // namespace quadrille::internal
