// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/token_run.h"

#include <algorithm>
#include <array>
#include <limits>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

/// Calls `body` with a pointer to the run's tokens as unsigned integers of its width.
template <class Body>
auto with_type(const TokenRun& run, Body body) {
  switch (run.width) {
    case TokenWidth::kOne:
      return body(reinterpret_cast<const std::uint8_t*>(run.data));
    case TokenWidth::kTwo:
      return body(reinterpret_cast<const std::uint16_t*>(run.data));
    case TokenWidth::kFour:
      return body(reinterpret_cast<const std::uint32_t*>(run.data));
    case TokenWidth::kEight:
      break;
  }
  QD_CHECK(run.width == TokenWidth::kEight);
  return body(reinterpret_cast<const std::uint64_t*>(run.data));
}

template <class T>
std::int64_t as_signed(T token) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(token, kLargest));
}

}  // namespace

std::int64_t token_at(const TokenRun& run, std::int64_t index) {
  QD_CHECK(index >= 0 && index < run.tokens);
  return with_type(run, [&](const auto* tokens) { return as_signed(tokens[index]); });
}

void copy_tokens(const TokenRun& run, std::int32_t* out) {
  with_type(run, [&](const auto* tokens) {
    for (std::int64_t i = 0; i < run.tokens; ++i) out[i] = static_cast<std::int32_t>(tokens[i]);
  });
}

std::int64_t largest_token(const TokenRun& run) {
  if (run.tokens == 0) return -1;
  return with_type(run, [&](const auto* tokens) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(tokens)>>;
    // Independent maxima in a loop of fixed length are what the compiler makes vectors of.
    constexpr std::size_t kLanes = 64 / sizeof(T);
    const auto count = static_cast<std::size_t>(run.tokens);
    std::array<T, kLanes> most{};
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        most[lane] = most[lane] > tokens[i + lane] ? most[lane] : tokens[i + lane];
      }
    }
    T largest = *std::max_element(most.begin(), most.end());
    for (; i < count; ++i) largest = std::max(largest, tokens[i]);
    return as_signed(largest);
  });
}

std::optional<std::int64_t> first_at_least(const TokenRun& run, std::int64_t limit) {
  // Block by block at the speed of largest_token, then token by token where there is one.
  constexpr std::int64_t kBlock = 1 << 16;
  for (std::int64_t first = 0; first < run.tokens; first += kBlock) {
    const TokenRun block = run.part(first, std::min(kBlock, run.tokens - first));
    if (largest_token(block) < limit) continue;
    for (std::int64_t i = 0; i < block.tokens; ++i) {
      if (token_at(block, i) >= limit) return first + i;
    }
  }
  return std::nullopt;
}

void count_tokens(const TokenRun& run, std::span<std::int64_t> counts) {
  with_type(run, [&](const auto* tokens) {
    for (std::int64_t i = 0; i < run.tokens; ++i) ++counts[static_cast<std::size_t>(tokens[i])];
  });
}

}  // namespace quadrille::internal
