// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Words and the ids that they became: natural text repeats its words, and a look-up is ten times
// faster than the merges. Bounded: a full cache is emptied. For one thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quadrille::internal {

class WordCache {
 public:
  /// A longer word is not kept; it is rare, and would be found rarely.
  static constexpr std::size_t kLongestWord = 64;

  WordCache();
  /// None where the word is not there (a word has at least one id). Valid until the next insert.
  [[nodiscard]] std::span<const std::int32_t> find(std::string_view word) const;
  /// A word that is not there, of at most kLongestWord bytes.
  void insert(std::string_view word, std::span<const std::int32_t> ids);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t text = 0;  ///< Where its bytes begin in text_ ...
    std::uint32_t ids = 0;   ///< ... and its ids in ids_.
    std::uint16_t bytes = 0;
    std::uint16_t count = 0;  ///< 0: the slot is free.
  };
  [[nodiscard]] std::size_t slot_of(std::string_view word, std::uint64_t hash) const;
  void make_room();

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::string text_;
  std::vector<std::int32_t> ids_;
};

/// Caches that outlive the calls which fill them: a call borrows one for each of its threads.
class WordCachePool {
 public:
  [[nodiscard]] std::unique_ptr<WordCache> borrow();
  void give_back(std::unique_ptr<WordCache> cache);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordCache>> idle_;
};

}  // namespace quadrille::internal
