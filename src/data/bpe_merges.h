// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Byte pair encoding of one word: begin with a token for each byte, and merge the neighbours whose
// merge has the lowest rank (of several, the leftmost) until no merge applies.
//
// Short words look at all their pairs for each merge; long ones keep the pairs in a heap, so that a
// word of n bytes costs n log n. Both give the same ids.
// Source: Sennrich et al. 2016, Neural Machine Translation of Rare Words with Subword Units, 3.2.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace quadrille::internal {

/// Token ids: left, right and what they merge into. The rank is the place in the list.
struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;
};

class BpeMerges {
 public:
  /// A pair that is listed twice has its later rank.
  BpeMerges(const std::array<std::int32_t, 256>& byte_tokens, const std::vector<BpeMerge>& merges);

  /// Words of up to this many bytes go the short way.
  static constexpr std::size_t kShortWord = 48;

  /// The ids of a word, at its end.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const;
  void append_short(std::string_view word, std::vector<std::int32_t>& ids) const;
  void append_long(std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  static constexpr std::int32_t kNoRank = INT32_MAX;
  struct Entry {
    std::uint64_t pair = 0;
    std::int32_t rank = kNoRank;  ///< kNoRank: no merge (the slot is free).
    std::int32_t result = 0;
  };
  [[nodiscard]] const Entry& find(std::int32_t left, std::int32_t right) const;
  [[nodiscard]] std::size_t slot_of(std::uint64_t pair) const;

  struct LongWord;
  std::array<std::int32_t, 256> byte_tokens_;
  std::vector<Entry> entries_;  ///< Open addressing; a power of two, at most half full.
  int shift_ = 0;               ///< 64 - log2 of the size.
};

}  // namespace quadrille::internal
