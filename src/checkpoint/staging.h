// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The little host memory that a checkpoint passes through on its way between device and disk: two
// halves, of which one is filled while the other is written. It is allocated once and counted in
// the rank's pool.

#include <cstddef>
#include <span>

#include "quadrille/base/result.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {

/// What disks read and write past the page cache: aligned to this, in memory and in the file.
inline constexpr std::size_t kDiskBlock = 4096;

/// Enough for a disk to run at its full rate: 4 MiB on the way while 4 MiB are gathered.
inline constexpr Bytes kStagingMost = Bytes(8 << 20);

/// Of a rank that writes `share` bytes of tensors: no more than they need.
[[nodiscard]] Bytes staging_bytes(Bytes share);

class Staging {
 public:
  Staging() = default;
  /// Aligned to kDiskBlock. Counted as workspace where there is a pool. Errors: kExhausted.
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
