// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "support/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "quadrille/base/check.h"

namespace quadrille::testing {
namespace {

const std::uintptr_t kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));

std::size_t whole_pages(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
}

}  // namespace

GuardedMemory::~GuardedMemory() {
  for (const auto& [start, bytes] : allocations_)
    munmap(reinterpret_cast<void*>(start), whole_pages(bytes));
}

Result<void*> GuardedMemory::allocate(std::size_t bytes) {
  void* memory = mmap(nullptr, whole_pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail(errno_error("cannot map guarded memory", errno));
  allocations_[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return memory;
}

void GuardedMemory::release(void* memory) {
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(memory));
  QD_CHECK(found != allocations_.end());
  QD_CHECK(munmap(memory, whole_pages(found->second)) == 0);
  allocations_.erase(found);
}

void GuardedMemory::check_within(std::span<const Operand> operands) const {
  for (const Operand& operand : operands) {
    if (operand.view.empty()) continue;
    const auto first = reinterpret_cast<std::uintptr_t>(operand.view.address());
    const auto after = allocations_.upper_bound(first);
    QD_CHECK_MSG(after != allocations_.begin(), "an operand lies in no allocation of this device");
    const auto& [start, bytes] = *std::prev(after);
    const std::uintptr_t last = first + static_cast<std::uintptr_t>(operand.view.bytes().count());
    QD_CHECK_MSG(last <= start + bytes, "an operand reaches beyond its allocation");
  }
}

void GuardedMemory::protect(std::span<const Operand> operands, bool open) const {
  // Readable first, then writable: operands may share pages, and the wider right must win.
  for (const bool writable : {false, true}) {
    for (const Operand& operand : operands) {
      if (operand.view.empty() || writable != (operand.access != Access::kRead)) continue;
      const auto first = reinterpret_cast<std::uintptr_t>(operand.view.address());
      const auto last = first + static_cast<std::uintptr_t>(operand.view.bytes().count());
      const std::uintptr_t page = first / kPage * kPage;
      const int rights = !open ? PROT_NONE : writable ? PROT_READ | PROT_WRITE : PROT_READ;
      QD_CHECK(mprotect(reinterpret_cast<void*>(page), whole_pages(last - page), rights) == 0);
    }
  }
}

}  // namespace quadrille::testing
