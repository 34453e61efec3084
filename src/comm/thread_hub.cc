// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/thread_hub.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {

ThreadHub::Place::Place(int ranks)
    : memory(std::aligned_alloc(
          64, static_cast<std::size_t>(DirectMover::memory_bytes(ranks).count()))) {
  QD_CHECK(memory != nullptr);
  DirectMover::prepare(memory, ranks);
}

ThreadHub::Place::~Place() { std::free(memory); }

void* ThreadHub::meeting(const std::vector<Rank>& members) {
  const std::lock_guard lock(mutex_);
  return meetings_.try_emplace(members, static_cast<int>(members.size())).first->second.memory;
}

void ThreadHub::set_returned(Rank rank, const Result<void>& result) {
  const std::lock_guard lock(mutex_);
  returned_[static_cast<std::size_t>(rank.value)] = 1;
  if (!result && !failure_) {
    failure_ = Error{
        Code::kAborted, fmt::format("rank {} failed: {}", rank.value, result.error().message), {}};
  }
  any_returned_.store(true, std::memory_order_release);
}

std::optional<Error> ThreadHub::lost(const Awaited& awaited) {
  if (!any_returned_.load(std::memory_order_acquire)) return std::nullopt;
  const std::vector<Rank> missing = awaited.missing();
  const std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  std::vector<Rank> gone;
  for (const Rank rank : missing) {
    if (returned_[static_cast<std::size_t>(rank.value)] != 0) gone.push_back(rank);
  }
  if (gone.empty()) return std::nullopt;
  return Error{Code::kUnavailable,
               describe(gone) + (gone.size() == 1 ? " has" : " have") +
                   " returned while others still communicate",
               {}};
}

}  // namespace quadrille::internal
