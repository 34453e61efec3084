// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/thread_hub.h"

#include <fmt/format.h>

#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {

/// The ranks that a round still waits for.
class ThreadMeeting::Absent final : public Awaited {
 public:
  Absent(const ThreadMeeting& meeting, std::uint64_t round) : meeting_(meeting), round_(round) {}

  std::vector<Rank> missing() const override {
    std::vector<Rank> ranks;
    for (std::size_t i = 0; i < meeting_.slots_.size(); ++i) {
      if (meeting_.slots_[i].round.load(std::memory_order_acquire) < round_) {
        ranks.push_back(meeting_.members_[i]);
      }
    }
    return ranks;
  }
  std::optional<Error> lost() override {
    if (!meeting_.hub_.any_returned()) return std::nullopt;
    return meeting_.hub_.lost(missing());
  }

 private:
  const ThreadMeeting& meeting_;
  std::uint64_t round_;
};

ThreadMeeting::ThreadMeeting(ThreadHub& hub, std::vector<Rank> members)
    : hub_(hub), members_(std::move(members)), slots_(members_.size()) {}

bool ThreadMeeting::count_in(int rank) {
  std::atomic<std::uint64_t>& round = slots_[static_cast<std::size_t>(rank)].round;
  round.store(round.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  std::uint64_t word = arrivals_.load(std::memory_order_relaxed);
  do {
    if ((word & kBroken) != 0) return false;
  } while (!arrivals_.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel,
                                            std::memory_order_relaxed));
  return true;
}

Result<void> ThreadMeeting::arrive(int rank, Watch& watch) {
  if (!count_in(rank)) return fail(broken_error());
  const std::uint64_t round =
      slots_[static_cast<std::size_t>(rank)].round.load(std::memory_order_relaxed);
  Absent absent(*this, round);
  while (true) {
    const std::uint64_t word = arrivals_.load(std::memory_order_acquire);
    if (complete(word, round)) return {};
    if ((word & kBroken) != 0) return fail(broken_error());
    if (auto turned = watch.turn(absent); !turned) {
      return give_up(round, std::move(turned).error());
    }
  }
}

Result<void> ThreadMeeting::give_up(std::uint64_t round, Error error) {
  const std::lock_guard lock(mutex_);
  if (error_) return fail(*error_);
  std::uint64_t word = arrivals_.load(std::memory_order_acquire);
  do {
    if (complete(word, round)) return {};
  } while (!arrivals_.compare_exchange_weak(word, word | kBroken, std::memory_order_acq_rel,
                                            std::memory_order_acquire));
  error_ = error;
  return fail(std::move(error));
}

Error ThreadMeeting::broken_error() {
  const std::lock_guard lock(mutex_);
  QD_CHECK(error_.has_value());
  return *error_;
}

void ThreadMeeting::leave(int rank, bool always_yield, Seconds most) {
  QD_CHECK(count_in(rank));
  const std::uint64_t round =
      slots_[static_cast<std::size_t>(rank)].round.load(std::memory_order_relaxed);
  Backoff backoff(always_yield);
  std::optional<Seconds> since;
  while (!complete(arrivals_.load(std::memory_order_acquire), round)) {
    backoff.turn();
    if (backoff.brief()) continue;
    if (!since) since = monotonic_now();
    QD_CHECK_MSG(monotonic_now() - *since < most,
                 describe(Absent(*this, round).missing()) + " never left a collective");
  }
}

Result<void> ThreadMeeting::compare(std::uint64_t sequence) const {
  const auto& first = slots_.front().posts[sequence % 2].call;
  bool same = true;
  for (const Slot& slot : slots_) same = same && slot.posts[sequence % 2].call == first;
  if (same) [[likely]] {
    return {};
  }
  std::vector<PostedCall> calls;
  for (const Slot& slot : slots_) calls.push_back(slot.posts[sequence % 2].call);
  auto difference = find_difference(calls, members_);
  QD_CHECK(difference.has_value());
  return fail(*std::move(difference));
}

ThreadMeeting& ThreadHub::meeting(const std::vector<Rank>& members) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<ThreadMeeting>& meeting = meetings_[members];
  if (meeting == nullptr) meeting = std::make_unique<ThreadMeeting>(*this, members);
  return *meeting;
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

std::optional<Error> ThreadHub::lost(const std::vector<Rank>& missing) const {
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
