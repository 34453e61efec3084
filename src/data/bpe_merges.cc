// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
}

}  // namespace

BpeMerges::BpeMerges(const std::array<std::int32_t, 256>& byte_tokens,
                     const std::vector<BpeMerge>& merges)
    : byte_tokens_(byte_tokens) {
  QD_CHECK(merges.size() < static_cast<std::size_t>(kNoRank));
  entries_.resize(std::max<std::size_t>(16, std::bit_ceil(2 * merges.size())));
  shift_ = 64 - std::countr_zero(entries_.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    entries_[slot_of(pair)] = {pair, static_cast<std::int32_t>(rank), merges[rank].result};
  }
}

std::size_t BpeMerges::slot_of(std::uint64_t pair) const {
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t i = (pair * 0x9E3779B97F4A7C15) >> shift_;; i = (i + 1) & mask) {
    if (entries_[i].rank == kNoRank || entries_[i].pair == pair) return i;
  }
}

const BpeMerges::Entry& BpeMerges::find(std::int32_t left, std::int32_t right) const {
  return entries_[slot_of(pair_of(left, right))];
}

void BpeMerges::append(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.size() <= kShortWord) {
    append_short(word, ids);
  } else {
    append_long(word, ids);
  }
}

void BpeMerges::append_short(std::string_view word, std::vector<std::int32_t>& ids) const {
  QD_CHECK(word.size() <= kShortWord);
  struct Symbol {
    std::int32_t id;
    std::int32_t rank;  ///< Of the merge with the next symbol.
    std::int32_t result;
  };
  std::array<Symbol, kShortWord> symbols;
  std::size_t count = word.size();
  for (std::size_t i = 0; i < count; ++i) {
    symbols[i].id = byte_tokens_[static_cast<unsigned char>(word[i])];
  }
  const auto look_up = [&](std::size_t i) {
    const bool final = i + 1 >= count;
    const Entry* entry = final ? nullptr : &find(symbols[i].id, symbols[i + 1].id);
    symbols[i].rank = final ? kNoRank : entry->rank;
    symbols[i].result = final ? 0 : entry->result;
  };
  for (std::size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    const auto* best =
        std::min_element(symbols.begin(), symbols.begin() + count,
                         [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (best->rank == kNoRank) break;
    const auto at = static_cast<std::size_t>(best - symbols.begin());
    symbols[at].id = symbols[at].result;
    std::copy(symbols.begin() + at + 2, symbols.begin() + count, symbols.begin() + at + 1);
    --count;
    look_up(at);
    if (at > 0) look_up(at - 1);
  }
  for (std::size_t i = 0; i < count; ++i) ids.push_back(symbols[i].id);
}

/// A word as a list of symbols, and the pairs that may merge in a heap. A pair whose symbols have
/// changed since it was pushed is found stale when it is popped.
struct BpeMerges::LongWord {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  static constexpr std::int32_t kGone = -1;

  struct Pair {
    std::int32_t rank;
    std::int32_t left;
    std::int32_t right;
    std::int32_t result;
    std::size_t place;
    bool operator>(const Pair& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };

  LongWord(const BpeMerges& all, std::string_view word) : merges(all) {
    for (std::size_t i = 0; i < word.size(); ++i) {
      id.push_back(all.byte_tokens_[static_cast<unsigned char>(word[i])]);
      previous.push_back(i == 0 ? kNone : i - 1);
      next.push_back(i + 1 == word.size() ? kNone : i + 1);
    }
    for (std::size_t i = 0; i < word.size(); ++i) push(i);
  }

  void push(std::size_t place) {
    if (place == kNone || next[place] == kNone) return;
    const std::int32_t right = id[next[place]];
    const Entry& entry = merges.find(id[place], right);
    if (entry.rank == kNoRank) return;
    heap.push({entry.rank, id[place], right, entry.result, place});
  }

  void merge(const Pair& pair) {
    const std::size_t gone = next[pair.place];
    if (gone == kNone || id[pair.place] != pair.left || id[gone] != pair.right) return;
    id[pair.place] = pair.result;
    id[gone] = kGone;
    next[pair.place] = next[gone];
    if (next[gone] != kNone) previous[next[gone]] = pair.place;
    push(previous[pair.place]);
    push(pair.place);
  }

  const BpeMerges& merges;
  std::vector<std::int32_t> id;
  std::vector<std::size_t> previous;
  std::vector<std::size_t> next;
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> heap;
};

void BpeMerges::append_long(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  LongWord symbols(*this, word);
  while (!symbols.heap.empty()) {
    const LongWord::Pair pair = symbols.heap.top();
    symbols.heap.pop();
    symbols.merge(pair);
  }
  for (std::size_t i = 0; i != LongWord::kNone; i = symbols.next[i]) ids.push_back(symbols.id[i]);
}

}  // namespace quadrille::internal
