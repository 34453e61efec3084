// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/word_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

constexpr std::size_t kFirstSlots = std::size_t{1} << 10;
constexpr std::size_t kMostSlots = std::size_t{1} << 17;  // 3 MiB, and some 2 MiB of words.

/// Eight bytes at a time through a multiplication whose halves are folded together.
std::uint64_t hash_of(std::string_view word) {
  const auto mix = [](std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  std::uint64_t hash = word.size() * kOdd;
  while (!word.empty()) {
    std::uint64_t part = 0;
    const std::size_t length = std::min(word.size(), sizeof part);
    std::memcpy(&part, word.data(), length);
    hash = mix(hash ^ part ^ kOdd, 0xE7037ED1A0B428DB);
    word.remove_prefix(length);
  }
  return hash;
}

}  // namespace

WordCache::WordCache() : slots_(kFirstSlots) {}

std::size_t WordCache::slot_of(std::string_view word, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.count == 0) return i;
    if (slot.hash == hash && slot.bytes == word.size() &&
        std::memcmp(text_.data() + slot.text, word.data(), word.size()) == 0) {
      return i;
    }
  }
}

std::span<const std::int32_t> WordCache::find(std::string_view word) const {
  const Slot& slot = slots_[slot_of(word, hash_of(word))];
  return std::span(ids_).subspan(slot.ids, slot.count);
}

void WordCache::make_room() {
  if (2 * used_ < slots_.size()) return;
  std::vector<Slot> old(std::min(2 * slots_.size(), kMostSlots));
  const bool full = old.size() == slots_.size();
  old.swap(slots_);
  if (full) {
    used_ = 0;
    text_.clear();
    ids_.clear();
    return;
  }
  for (const Slot& slot : old) {
    if (slot.count == 0) continue;
    slots_[slot_of({text_.data() + slot.text, slot.bytes}, slot.hash)] = slot;
  }
}

void WordCache::insert(std::string_view word, std::span<const std::int32_t> ids) {
  QD_CHECK(!ids.empty() && ids.size() <= kLongestWord);
  QD_CHECK(word.size() <= kLongestWord);
  make_room();
  const std::uint64_t hash = hash_of(word);
  slots_[slot_of(word, hash)] = {.hash = hash,
                                 .text = static_cast<std::uint32_t>(text_.size()),
                                 .ids = static_cast<std::uint32_t>(ids_.size()),
                                 .bytes = static_cast<std::uint16_t>(word.size()),
                                 .count = static_cast<std::uint16_t>(ids.size())};
  text_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++used_;
}

std::unique_ptr<WordCache> WordCachePool::borrow() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<WordCache>();
  std::unique_ptr<WordCache> cache = std::move(idle_.back());
  idle_.pop_back();
  return cache;
}

void WordCachePool::give_back(std::unique_ptr<WordCache> cache) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(cache));
}

}  // namespace quadrille::internal
