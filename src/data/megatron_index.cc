// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/megatron_index.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "quadrille/base/check.h"
#include "quadrille/base/text.h"
#include "quadrille/base/units.h"

namespace quadrille::internal {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;

/// numpy's types in the order of their codes, from 1. Those without a width hold no tokens.
struct Type {
  std::string_view name;
  std::optional<TokenWidth> width;
};
constexpr std::array<Type, 8> kTypes = {{{"uint8", TokenWidth::kOne},
                                         {"int8", std::nullopt},
                                         {"int16", std::nullopt},
                                         {"int32", TokenWidth::kFour},
                                         {"int64", TokenWidth::kEight},
                                         {"float64", std::nullopt},
                                         {"float32", std::nullopt},
                                         {"uint16", TokenWidth::kTwo}}};

template <class T>
T number_at(const std::byte* bytes) {
  T number{};
  std::memcpy(&number, bytes, sizeof(T));
  return number;
}

tl::unexpected<Error> wrong(const std::string& path, std::string_view what,
                            std::string_view expected) {
  return fail(Code::kInvalid, fmt::format("\"{}\" {}; expected {}", path, what, expected));
}

/// S and D, if the index is as long as they say.
struct Counts {
  std::int64_t sequences = 0;
  std::int64_t index_entries = 0;
};

Result<Counts> read_counts(std::span<const std::byte> index, const std::string& path) {
  Counts counts{number_at<std::int64_t>(index.data() + 18),
                number_at<std::int64_t>(index.data() + 26)};
  const auto length = static_cast<std::int64_t>(index.size());
  const std::string said = fmt::format("counts {} sequences and a document index of {}",
                                       grouped(counts.sequences), grouped(counts.index_entries));
  // Each entry takes more than a byte, so larger counts are wrong, and smaller ones cannot
  // overflow.
  if (counts.sequences < 0 || counts.index_entries < 1 || counts.sequences > length ||
      counts.index_entries > length) {
    return wrong(path, fmt::format("{} in {} bytes", said, grouped(length)),
                 "an index that is not truncated");
  }
  const std::int64_t least = kHeaderBytes + 12 * counts.sequences + 8 * counts.index_entries;
  if (length != least && length != least + counts.sequences) {
    return wrong(path,
                 fmt::format("{} but {} {} bytes", said, length < least ? "is truncated to" : "has",
                             grouped(length)),
                 fmt::format("{} bytes", grouped(least)));
  }
  return counts;
}

Result<TokenWidth> read_header(std::span<const std::byte> index, const std::string& path) {
  if (!looks_like_megatron_index(index)) {
    return wrong(path, "does not begin with a Megatron index's magic", "\"MMIDIDX\"");
  }
  if (static_cast<std::int64_t>(index.size()) < kHeaderBytes) {
    return wrong(path, fmt::format("ends within its header, after {} bytes", index.size()),
                 fmt::format("a header of {} bytes", kHeaderBytes));
  }
  const auto version = number_at<std::uint64_t>(index.data() + 9);
  if (version == __builtin_bswap64(1)) {
    return wrong(path, "is a Megatron index of the other byte order",
                 "one written on a little-endian machine");
  }
  if (version != 1) {
    return wrong(path, fmt::format("has version {} of Megatron's index", version), "version 1");
  }
  const auto code = static_cast<std::size_t>(index[17]);
  const bool known = code >= 1 && code <= kTypes.size();
  if (!known || !kTypes[code - 1].width) {
    return wrong(path,
                 fmt::format("has tokens of type {} ({})", code,
                             known ? kTypes[code - 1].name : "which is none"),
                 "1 (uint8), 4 (int32), 5 (int64) or 8 (uint16)");
  }
  return *kTypes[code - 1].width;
}

}  // namespace

bool looks_like_megatron_index(std::span<const std::byte> front) {
  return front.size() >= kMagic.size() &&
         std::memcmp(front.data(), kMagic.data(), kMagic.size()) == 0;
}

std::int64_t MegatronIndex::length(std::int64_t sequence) const {
  QD_CHECK(sequence >= 0 && sequence < sequences_);
  return number_at<std::int32_t>(lengths_ + 4 * sequence);
}

std::int64_t MegatronIndex::offset(std::int64_t sequence) const {
  QD_CHECK(sequence >= 0 && sequence < sequences_);
  return number_at<std::int64_t>(offsets_ + 8 * sequence);
}

std::int64_t MegatronIndex::document(std::int64_t number) const {
  QD_CHECK(number >= 0 && number <= documents_);
  return number_at<std::int64_t>(document_index_ + 8 * number);
}

Result<MegatronIndex> MegatronIndex::parse(std::span<const std::byte> index, std::int64_t bin_bytes,
                                           const std::string& path) {
  MegatronIndex parsed;
  QD_ASSIGN_OR_RETURN(parsed.width_, read_header(index, path));
  QD_ASSIGN_OR_RETURN(const Counts counts, read_counts(index, path));
  parsed.sequences_ = counts.sequences;
  parsed.documents_ = counts.index_entries - 1;
  parsed.lengths_ = index.data() + kHeaderBytes;
  parsed.offsets_ = parsed.lengths_ + 4 * counts.sequences;
  parsed.document_index_ = parsed.offsets_ + 8 * counts.sequences;
  QD_RETURN_IF_ERROR(parsed.check_sequences(bin_bytes, path));
  QD_RETURN_IF_ERROR(parsed.check_documents(path));
  return parsed;
}

Result<void> MegatronIndex::check_sequences(std::int64_t bin_bytes, const std::string& path) {
  const std::int64_t width = bytes_of(width_);
  for (std::int64_t i = 0; i < sequences_; ++i) {
    const std::int64_t tokens = length(i);
    const std::int64_t begin = offset(i);
    if (tokens < 0 || begin < 0 || begin % width != 0) {
      return wrong(path, fmt::format("has {} tokens at byte {} as sequence {}", tokens, begin, i),
                   fmt::format("a length from 0 and a multiple of {}", width));
    }
    if (begin > bin_bytes || tokens > (bin_bytes - begin) / width) {
      return wrong(path,
                   fmt::format("has sequence {} of {} tokens at byte {}, but the .bin {} {} bytes",
                               i, grouped(tokens), grouped(begin),
                               bin_bytes == 0 ? "has" : "ends after", grouped(bin_bytes)),
                   "a .bin that is not truncated and belongs to this index");
    }
    // No overflow: sequences are at most the index's bytes, and each below 2^31.
    tokens_ += tokens;
  }
  return {};
}

Result<void> MegatronIndex::check_documents(const std::string& path) const {
  std::int64_t last = 0;
  for (std::int64_t d = 0; d <= documents_; ++d) {
    const std::int64_t first = document(d);
    if (first < last || first > sequences_ || (d == 0 && first != 0)) {
      return wrong(path, fmt::format("has document {} begin at sequence {}", d, first),
                   fmt::format("numbers that rise from 0 to {}", sequences_));
    }
    last = first;
  }
  if (last == sequences_) return {};
  return wrong(path, fmt::format("ends its last document at sequence {}", last),
               fmt::format("{}, after the last one", sequences_));
}

}  // namespace quadrille::internal
