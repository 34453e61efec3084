// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/staging.h"

#include <sys/mman.h>

#include <utility>

namespace quadrille::internal {

Result<Staging> Staging::create(Bytes bytes, Pool* pool) {
  Staging staging;
  if (bytes == Bytes(0)) return staging;
  const auto count = static_cast<std::size_t>(bytes.count());
  void* memory = mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(Code::kExhausted, "cannot allocate " + to_text(bytes) + " to stage checkpoints in");
  }
  // A wish: the first snapshot then faults in 2 MiB at a time instead of 4 KiB.
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
