// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mailbox.h"

#include <fmt/format.h>

#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {

/// The rank at the other end, which a wait is for.
class Mailbox::Other final : public Awaited {
 public:
  explicit Other(const Mailbox& box) : box_(box) {}
  std::vector<Rank> missing() const override {
    const Group& pair = box_.call_.pair;
    return {pair.members[static_cast<std::size_t>(1 - pair.me)]};
  }
  std::optional<Error> lost() override { return box_.peers_.lost(*this); }

 private:
  const Mailbox& box_;
};

Mailbox::Mailbox(Box& box, Peers& peers, const PairCall& call)
    : box_(box), peers_(peers), call_(call) {}

Result<Mailbox::Outcome> Mailbox::offer(Location location, std::int64_t bytes) {
  if (auto broken = peers_.broken()) return fail(*std::move(broken));
  box_.location = location;
  box_.bytes = bytes;
  set(Phase::kOffered);
  Watch watch(call_.pair, call_.call);
  Other other(*this);
  while (true) {
    if (is(Phase::kTaken)) return Outcome::kTaken;
    if (is(Phase::kByMessage)) return Outcome::kByMessage;
    if (is(Phase::kRefused)) return fail(difference());
    if (auto turned = watch.turn(other); !turned) {
      QD_RETURN_IF_ERROR(withdraw(std::move(turned).error()));
    }
  }
}

/// Nothing where the receiver is copying already: it is done within moments, unless it vanishes.
Result<void> Mailbox::withdraw(Error error) {
  if (!change(Phase::kOffered, Phase::kWithdrawn) && !peers_.may_vanish()) {
    Backoff backoff(true);
    while (is(Phase::kTaking)) backoff.turn();
    return {};
  }
  peers_.give_up(error);
  return fail(std::move(error));
}

Result<Location> Mailbox::take(std::int64_t bytes) {
  if (auto broken = peers_.broken()) return fail(*std::move(broken));
  Watch watch(call_.pair, call_.call);
  Other other(*this);
  while (!change(Phase::kOffered, Phase::kTaking)) {
    if (is(Phase::kWithdrawn)) {
      return fail(Code::kUnavailable,
                  fmt::format("rank {} gave up its {}", other.missing().front().value,
                              describe(call_.call)));
    }
    if (auto turned = watch.turn(other); !turned) {
      peers_.give_up(turned.error());
      return fail(std::move(turned).error());
    }
  }
  if (box_.bytes == bytes) return box_.location;
  box_.wanted = bytes;
  Error error = difference();
  set(Phase::kRefused);
  return fail(std::move(error));
}

Error Mailbox::difference() const {
  return Error{Code::kInvalid,
               fmt::format("{}: one sends {} bytes where the other expects {}",
                           describe(call_.call), box_.bytes, box_.wanted),
               {}};
}

}  // namespace quadrille::internal
