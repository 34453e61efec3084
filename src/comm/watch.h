// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every wait of a collective turns through a Watch: it gives the core away, and it ends the wait
// when a stop was asked for, a peer is lost, or the deadline has passed, naming the culprit.

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/call.h"
#include "comm/group.h"
#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille::internal {

/// Gives the core away between two looks: a few pauses where a core is ours, then yields, then
/// sleeps that grow to 200 us, so that a rank that waits long costs its peers nothing.
class Backoff {
 public:
  explicit Backoff(bool always_yield) : turn_(always_yield ? kPauses : 0) {}
  void turn();
  /// Still in the phases where looking around each turn would be the larger part.
  [[nodiscard]] bool brief() const { return turn_ < kPauses + kYields; }

 private:
  static constexpr int kPauses = 4000;  // about 100-200 us
  static constexpr int kYields = 1000;
  int turn_;
};

/// What a backend knows about the peers that a wait is for.
class Awaited {
 public:
  virtual ~Awaited() = default;
  /// World ranks that have not come yet.
  [[nodiscard]] virtual std::vector<Rank> missing() const = 0;
  /// A peer that will never come: failed (kAborted) or returned (kUnavailable).
  [[nodiscard]] virtual std::optional<Error> lost() = 0;
};

/// A process of this host that will do nothing more: gone, or a zombie. Never for 0.
[[nodiscard]] bool is_dead(int pid);

class Watch {
 public:
  Watch(const Group& group, const Call& call)
      : group_(group), call_(call), backoff_(group.always_yield) {}

  /// One turn of a wait that is not over. Errors end it: kAborted, kUnavailable, kInvalid,
  /// kTimeout.
  [[nodiscard]] Result<void> turn(Awaited& awaited);

 private:
  [[nodiscard]] Result<void> look(Awaited& awaited);
  [[nodiscard]] std::optional<Error> definite_fault(const std::vector<Rank>& missing) const;
  [[nodiscard]] Error timed_out(Seconds waited, const std::vector<Rank>& missing) const;
  void warn(Seconds waited, const std::vector<Rank>& missing) const;
  [[nodiscard]] std::string culprit(const std::vector<Rank>& missing) const;
  [[nodiscard]] std::string waiting() const;

  const Group& group_;
  Call call_;
  Backoff backoff_;
  std::int64_t turns_ = 0;
  Seconds started_;
  Seconds next_look_at_table_;
  bool warned_ = false;
};

}  // namespace quadrille::internal
