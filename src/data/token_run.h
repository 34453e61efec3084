// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tokens of one width that lie one after the other in memory, and the loops over them. The bytes
// belong to a mapping or an array that outlives the run. Little-endian, aligned to the width.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace quadrille::internal {

/// Bytes of a token. Two bytes are unsigned; in four and eight a negative number is no id.
enum class TokenWidth : std::uint8_t { kOne = 1, kTwo = 2, kFour = 4, kEight = 8 };

[[nodiscard]] constexpr std::int64_t bytes_of(TokenWidth width) {
  return static_cast<std::int64_t>(width);
}

struct TokenRun {
  const std::byte* data = nullptr;
  std::int64_t tokens = 0;
  TokenWidth width = TokenWidth::kOne;

  [[nodiscard]] const std::byte* end() const { return data + tokens * bytes_of(width); }
  /// Tokens [first, first + count) of the run.
  [[nodiscard]] TokenRun part(std::int64_t first, std::int64_t count) const {
    return {data + first * bytes_of(width), count, width};
  }
};

/// One token, as it stands there.
[[nodiscard]] std::int64_t token_at(const TokenRun& run, std::int64_t index);

/// All tokens of the run to `out`, which has room for them. Ids must fit 31 bits: what is checked
/// against a vocabulary does.
void copy_tokens(const TokenRun& run, std::int32_t* out);

/// The largest token, read as unsigned so that a negative one is the largest of all; what is beyond
/// 63 bits counts as 2^63 - 1. -1 for an empty run. One pass at the speed of memory.
[[nodiscard]] std::int64_t largest_token(const TokenRun& run);

/// The first index whose token is `limit` or more, or negative.
[[nodiscard]] std::optional<std::int64_t> first_at_least(const TokenRun& run, std::int64_t limit);

/// Adds the run's tokens to `counts`, which has a place for each.
void count_tokens(const TokenRun& run, std::span<std::int64_t> counts);

}  // namespace quadrille::internal
