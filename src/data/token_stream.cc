// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/token_stream.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {

void TokenStream::append_run(const TokenRun& run, bool begins_document) {
  if (run.tokens == 0) return;
  const std::size_t file = files_.size() - 1;
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (begins_document && separator_ && token_at(last.run, last.run.tokens - 1) != *separator_ &&
        token_at(run, 0) != *separator_) {
      last.separated = true;
      ++tokens_;
    }
    if (!last.separated && last.file == file && last.run.end() == run.data) {
      last.run.tokens += run.tokens;
      tokens_ += run.tokens;
      return;
    }
  }
  pieces_.push_back({.run = run, .first = tokens_, .file = file});
  tokens_ += run.tokens;
}

void TokenStream::append(OpenedFile file) {
  files_.push_back(std::move(file));
  const OpenedFile& added = files_.back();
  if (!added.index) {
    append_run(added.tokens(), true);
    return;
  }
  for (std::int64_t document = 0; document < added.index->documents(); ++document) {
    const std::int64_t first = added.index->document(document);
    const std::int64_t end = added.index->document(document + 1);
    bool begins = true;
    for (std::int64_t sequence = first; sequence < end; ++sequence) {
      const TokenRun run = added.sequence(sequence);
      append_run(run, begins);
      if (run.tokens > 0) begins = false;
    }
  }
}

void TokenStream::advise(PageOrder order) const {
  const int advice = order == PageOrder::kRandom ? MADV_RANDOM : MADV_SEQUENTIAL;
  for (const OpenedFile& file : files_) {
    const auto bytes = file.data.bytes();
    if (bytes.empty()) continue;
    // A hint that the kernel may refuse; reading works all the same.
    (void)madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), advice);
  }
}

template <class Visit>
void TokenStream::for_each_part(std::int64_t first, std::int64_t count, Visit visit) const {
  QD_CHECK(first >= 0 && count >= 0);
  QD_CHECK(first <= tokens_ && count <= tokens_ - first);
  const std::int32_t separator = separator_.value_or(0);
  const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                      [](std::int64_t at, const Piece& p) { return at < p.first; });
  const std::int64_t end = first + count;
  for (auto piece = after == pieces_.begin() ? after : after - 1; first < end; ++piece) {
    const std::int64_t inside = first - piece->first;
    const std::int64_t length = std::min(end - first, piece->run.tokens - inside);
    if (length > 0) visit(piece->run.part(inside, length));
    first += std::max<std::int64_t>(length, 0);
    if (first == end || !piece->separated) continue;
    visit(TokenRun{std::as_bytes(std::span(&separator, 1)).data(), 1, TokenWidth::kFour});
    ++first;
  }
}

void TokenStream::read(std::int64_t first, std::span<std::int32_t> out) const {
  auto* target = out.data();
  for_each_part(first, static_cast<std::int64_t>(out.size()), [&](const TokenRun& part) {
    copy_tokens(part, target);
    target += part.tokens;
  });
}

void TokenStream::count(std::int64_t first, std::int64_t count,
                        std::span<std::int64_t> counts) const {
  for_each_part(first, count, [&](const TokenRun& part) { count_tokens(part, counts); });
}

std::optional<StreamPlace> TokenStream::first_at_least(std::int64_t limit) const {
  for (const Piece& piece : pieces_) {
    const std::int64_t bits = 8 * bytes_of(piece.run.width);
    if (bits < 32 && limit >= (std::int64_t{1} << bits)) continue;
    const OpenedFile& file = files_[piece.file];
    if (file.sidecar && file.sidecar->largest_id < limit) continue;
    const auto found = internal::first_at_least(piece.run, limit);
    if (!found) continue;
    const std::byte* base = file.tokens().data;
    const std::int64_t before = (piece.run.data - base) / bytes_of(piece.run.width);
    return StreamPlace{piece.file, before + *found, token_at(piece.run, *found)};
  }
  return std::nullopt;
}

}  // namespace quadrille::internal
