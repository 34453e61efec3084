// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/meeting.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "quadrille/base/check.h"
#include "quadrille/base/hash.h"

namespace quadrille::internal {
namespace {

constexpr Seconds kLongestLeave(60.0);
constexpr Seconds kLongestClaim(1.0);  // writing an error takes a microsecond, unless its rank dies

template <std::size_t N>
void put_text(std::string_view text, std::array<char, N>& target) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(target.data(), text.data(), length);
  target[length] = '\0';
}

std::uint64_t hash_of(const Call& call) {
  const auto mix = [](std::uint64_t seed, std::uint64_t value) {
    return (seed ^ value) * 0x9E3779B97F4A7C15ULL;
  };
  const auto text = [](std::string_view characters) {
    return hash64(std::as_bytes(std::span(characters.data(), characters.size())));
  };
  std::uint64_t hash = mix(text(call.operation), text(call.place));
  hash = mix(hash ^ (hash >> 29U), static_cast<std::uint64_t>(call.bytes));
  return mix(hash ^ (hash >> 29U), static_cast<std::uint64_t>(call.root));
}

}  // namespace

/// The ranks that a round still waits for: to arrive, or to leave.
class Meeting::Absent final : public Awaited {
 public:
  Absent(const Meeting& meeting, bool leaving) : meeting_(meeting), leaving_(leaving) {}

  std::vector<Rank> missing() const override {
    std::vector<Rank> ranks;
    for (int r = 0; r < meeting_.group_.size(); ++r) {
      if (!is_there(r)) ranks.push_back(meeting_.group_.members[static_cast<std::size_t>(r)]);
    }
    return ranks;
  }
  std::optional<Error> lost() override { return meeting_.peers_.lost(*this); }
  /// All others have left the round.
  [[nodiscard]] bool nobody() const {
    for (int r = 0; r < meeting_.group_.size(); ++r) {
      if (!is_there(r)) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] bool is_there(int rank) const {
    const std::array<Post, 2>& posts = meeting_.slot(rank).posts;
    if (leaving_) {
      return meeting_.post(rank).left.load(std::memory_order_acquire) >= meeting_.round_;
    }
    return std::max(posts[0].round.load(std::memory_order_acquire),
                    posts[1].round.load(std::memory_order_acquire)) >= meeting_.round_;
  }
  const Meeting& meeting_;
  bool leaving_;
};

Bytes Meeting::memory_bytes(int ranks) {
  return Bytes(
      static_cast<std::int64_t>(sizeof(Head) + sizeof(Slot) * static_cast<std::size_t>(ranks)));
}

void Meeting::prepare(void* memory, int ranks) {
  auto* head = static_cast<std::byte*>(memory);
  std::construct_at(reinterpret_cast<Head*>(head));
  auto* slots = reinterpret_cast<Slot*>(head + sizeof(Head));
  for (int r = 0; r < ranks; ++r) std::construct_at(slots + r);
}

Meeting::Meeting(void* memory, Group group, Peers& peers)
    : head_(*static_cast<Head*>(memory)),
      slots_(reinterpret_cast<Slot*>(static_cast<std::byte*>(memory) + sizeof(Head))),
      group_(std::move(group)),
      peers_(peers) {}

void Meeting::post_call(const Call& call, Location location, std::uint64_t bytes) {
  Slot& mine = slot(group_.me);
  PostText& text = mine.texts[round_ % 2];
  put_text(call.operation, text.operation);
  put_text(call.place, text.place);
  text.bytes = call.bytes;
  text.root = call.root;
  Post& post = mine.posts[round_ % 2];
  post.call = hash_of(call);
  post.location = location;
  post.bytes = bytes;
  post.round.store(round_, std::memory_order_release);
}

bool Meeting::count_in() {
  std::uint64_t word = head_.arrivals.load(std::memory_order_relaxed);
  do {
    if ((word & kBroken) != 0) return false;
  } while (!head_.arrivals.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel,
                                                 std::memory_order_relaxed));
  return true;
}

Result<void> Meeting::meet(const Call& call, Location location, std::uint64_t bytes) {
  if (auto broken = peers_.broken()) return fail(*std::move(broken));
  ++round_;
  post_call(call, location, bytes);
  if (auto arrived = arrive(call); !arrived) {
    peers_.give_up(arrived.error());
    return arrived;
  }
  return compare();
}

Result<void> Meeting::arrive(const Call& call) {
  if (!count_in()) return fail(broken_error());
  Watch watch(group_, call);
  Absent absent(*this, false);
  while (true) {
    const std::uint64_t word = head_.arrivals.load(std::memory_order_acquire);
    if (complete(word)) return {};
    if ((word & kBroken) != 0) return fail(broken_error());
    if (auto turned = watch.turn(absent); !turned) return give_up(std::move(turned).error());
  }
}

Result<void> Meeting::give_up(Error error) {
  Backoff backoff(true);
  const Seconds since = monotonic_now();
  std::uint32_t free = 0;
  while (!head_.claim.compare_exchange_strong(free, 1, std::memory_order_acq_rel)) {
    // Another rank gives up too, and says why; it may have died over it.
    const std::uint64_t word = head_.arrivals.load(std::memory_order_acquire);
    if (complete(word)) return {};
    if ((word & kBroken) != 0) return fail(broken_error());
    if (monotonic_now() - since > kLongestClaim) return fail(std::move(error));
    backoff.turn();
    free = 0;
  }
  head_.code = static_cast<std::int32_t>(error.code);
  put_text(error.message, head_.message);
  std::uint64_t word = head_.arrivals.load(std::memory_order_acquire);
  do {
    if (complete(word)) {
      head_.claim.store(0, std::memory_order_release);
      return {};
    }
  } while (!head_.arrivals.compare_exchange_weak(word, word | kBroken, std::memory_order_acq_rel,
                                                 std::memory_order_acquire));
  return fail(std::move(error));
}

Error Meeting::broken_error() const {
  return Error{static_cast<Code>(head_.code), head_.message.data(), {}};
}

Result<void> Meeting::compare() const {
  const std::uint64_t first = post(0).call;
  bool same = true;
  for (int r = 1; r < group_.size(); ++r) same = same && post(r).call == first;
  if (same) [[likely]] {
    return {};
  }
  std::vector<PostedCall> calls;
  for (int r = 0; r < group_.size(); ++r) {
    const PostText& text = slot(r).texts[round_ % 2];
    PostedCall call;
    call.assign(
        Call{text.operation.data(), text.bytes, text.place.data(), static_cast<int>(text.root)});
    calls.push_back(std::move(call));
  }
  auto difference = find_difference(calls, group_.members);
  if (!difference) {
    return fail(Code::kInvalid, "the ranks' calls differ in a place whose text is too long: " +
                                    describe(calls.front()));
  }
  return fail(*std::move(difference));
}

Result<void> Meeting::leave(const Call& call) {
  Post& mine = slot(group_.me).posts[round_ % 2];
  mine.left.store(round_, std::memory_order_release);
  Absent absent(*this, true);
  if (peers_.may_vanish()) {
    Watch watch(group_, call);
    while (!absent.nobody()) {
      if (auto turned = watch.turn(absent); !turned) {
        peers_.give_up(turned.error());
        return turned;
      }
    }
    return {};
  }
  Backoff backoff(group_.always_yield);
  std::optional<Seconds> since;
  const Seconds most = std::max(kLongestLeave, group_.options->timeout);
  while (!absent.nobody()) {
    backoff.turn();
    if (backoff.brief()) continue;
    if (!since) since = monotonic_now();
    QD_CHECK_MSG(monotonic_now() - *since < most,
                 describe(absent.missing()) + " never left a collective");
  }
  return {};
}

}  // namespace quadrille::internal
