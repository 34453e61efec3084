// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/staging.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace quadrille::internal {

Bytes staging_bytes(Bytes share) {
  constexpr std::int64_t kLeast = 2 * std::int64_t{kDiskBlock};
  const Bytes whole((share.count() + kLeast - 1) / kLeast * kLeast);
  return std::clamp(whole, Bytes(kLeast), kStagingMost);
}

Result<Staging> Staging::create(Bytes bytes, Pool* pool) {
  Staging staging;
  if (bytes == Bytes(0)) return staging;
  const auto count = static_cast<std::size_t>(bytes.count());
  void* memory = mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(Code::kExhausted, "cannot allocate " + to_text(bytes) + " to stage checkpoints in");
  }
  // A wish: pages that come 2 MiB at a time are fewer faults, and fewer pieces for the disk.
  (void)madvise(memory, count, MADV_HUGEPAGE);
  staging.bytes_ = {static_cast<std::byte*>(memory), count};
  if (pool != nullptr) {
    QD_ASSIGN_OR_RETURN(staging.lease_, pool->adopt({memory, bytes, [] {}}, MemoryTag::kWorkspace,
                                                    "checkpoint staging"));
  }
  return staging;
}

Staging::Staging(Staging&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), lease_(std::move(other.lease_)) {}

Staging& Staging::operator=(Staging&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(lease_, other.lease_);
  return *this;
}

Staging::~Staging() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace quadrille::internal
