// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a rank says it is doing in a collective, and how the ranks' calls are compared.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

/// One collective as this rank calls it.
struct Call {
  std::string_view operation;
  std::int64_t bytes = 0;  ///< 0 where lengths may differ.
  std::string_view place;
  int root = -1;               ///< In the group; -1 without one.
  std::uint64_t sequence = 0;  ///< Counts the group's collectives on this rank, from 1.
};

/// A call that outlives its caller's text.
struct PostedCall {
  std::string operation;
  std::int64_t bytes = 0;
  std::string place;
  int root = -1;

  void assign(const Call& call);
  friend bool operator==(const PostedCall&, const PostedCall&) = default;
};

/// "all_reduce of 64 bytes at bucket 3".
[[nodiscard]] std::string describe(const PostedCall& call);
[[nodiscard]] std::string describe(const Call& call);

/// "rank 2", "ranks 1, 3 and 4".
[[nodiscard]] std::string describe(std::span<const Rank> ranks);

/// kInvalid naming the ranks that call something else than most, or nothing when all agree. The
/// same sentence on every rank. `calls` and `members` (world ranks) by group rank.
[[nodiscard]] std::optional<Error> find_difference(std::span<const PostedCall> calls,
                                                   std::span<const Rank> members);

}  // namespace quadrille::internal
