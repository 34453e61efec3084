// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/token_stream.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {

void TokenStream::append(MappedFile file) {
  const auto count = static_cast<std::int64_t>(file.bytes().size());
  pieces_.push_back({std::move(file), tokens_});
  tokens_ += count;
}

void TokenStream::advise(PageOrder order) const {
  const int advice = order == PageOrder::kRandom ? MADV_RANDOM : MADV_SEQUENTIAL;
  for (const Piece& piece : pieces_) {
    const auto bytes = piece.file.bytes();
    if (bytes.empty()) continue;
    // A hint that the kernel may refuse; reading works all the same.
    (void)madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), advice);
  }
}

template <class Visit>
void TokenStream::for_each_part(std::int64_t first, std::int64_t count, Visit visit) const {
  QD_CHECK(first >= 0 && count >= 0);
  QD_CHECK(first <= tokens_ && count <= tokens_ - first);
  const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                      [](std::int64_t at, const Piece& p) { return at < p.first; });
  for (auto piece = after == pieces_.begin() ? after : after - 1; count > 0; ++piece) {
    const auto bytes = piece->file.bytes();
    const std::int64_t inside = first - piece->first;
    const std::int64_t length = std::min(count, static_cast<std::int64_t>(bytes.size()) - inside);
    visit(bytes.subspan(static_cast<std::size_t>(inside), static_cast<std::size_t>(length)));
    first += length;
    count -= length;
  }
}

void TokenStream::read(std::int64_t first, std::span<std::int32_t> out) const {
  auto* target = out.data();
  for_each_part(first, static_cast<std::int64_t>(out.size()), [&](std::span<const std::byte> part) {
    const auto* source = reinterpret_cast<const std::uint8_t*>(part.data());
    target = std::copy(source, source + part.size(), target);
  });
}

std::array<std::int64_t, 256> TokenStream::histogram(std::int64_t first, std::int64_t count) const {
  std::array<std::int64_t, 256> counts{};
  for_each_part(first, count, [&](std::span<const std::byte> part) {
    for (const std::byte byte : part) ++counts[static_cast<std::size_t>(byte)];
  });
  return counts;
}

std::optional<StreamPlace> TokenStream::first_at_least(std::int64_t limit) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto bytes = pieces_[i].file.bytes();
    const auto found = std::find_if(bytes.begin(), bytes.end(), [&](std::byte byte) {
      return static_cast<std::int64_t>(byte) >= limit;
    });
    if (found == bytes.end()) continue;
    return StreamPlace{i, found - bytes.begin(), static_cast<std::int32_t>(*found)};
  }
  return std::nullopt;
}

}  // namespace quadrille::internal
