// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/llmc_header.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>

#include "quadrille/base/check.h"
#include "quadrille/base/text.h"

namespace quadrille::internal {
namespace {

struct Kind {
  std::uint32_t magic;
  std::uint32_t version;
  TokenWidth width;
};
constexpr std::array<Kind, 2> kKinds = {
    {{20240520, 1, TokenWidth::kTwo}, {20240801, 7, TokenWidth::kFour}}};

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t index) {
  std::uint32_t word = 0;
  QD_CHECK(bytes.size() >= 4 * (index + 1));
  std::memcpy(&word, bytes.data() + 4 * index, 4);
  return word;
}

const Kind* kind_of(std::uint32_t magic) {
  for (const Kind& kind : kKinds) {
    if (kind.magic == magic) return &kind;
  }
  return nullptr;
}

tl::unexpected<Error> wrong(const std::string& path, std::string_view what,
                            std::string_view expected) {
  return fail(Code::kInvalid, fmt::format("\"{}\" {}; expected {}", path, what, expected));
}

}  // namespace

bool looks_like_llmc(std::span<const std::byte> front) {
  if (front.size() < 4) return false;
  const std::uint32_t magic = word_at(front, 0);
  return kind_of(magic) != nullptr || kind_of(__builtin_bswap32(magic)) != nullptr;
}

Result<LlmcHeader> parse_llmc(std::span<const std::byte> file, const std::string& path) {
  const auto length = static_cast<std::int64_t>(file.size());
  if (length < 4) {
    return wrong(path, fmt::format("has {} bytes", length), "an llm.c header of 1,024 bytes");
  }
  const std::uint32_t magic = word_at(file, 0);
  const Kind* kind = kind_of(magic);
  if (kind == nullptr && kind_of(__builtin_bswap32(magic)) != nullptr) {
    return wrong(path, "is an llm.c token file of the other byte order",
                 "one written on a little-endian machine");
  }
  if (kind == nullptr) {
    return wrong(path, fmt::format("begins with {}, which is no token file's magic", magic),
                 "20240520 (llm.c, uint16) or 20240801 (llm.c, uint32), or an .idx beside it "
                 "(Megatron); `quadrille data prepare` makes one from text");
  }
  if (length < kLlmcHeaderBytes) {
    return wrong(path, fmt::format("ends within its header, after {} bytes", grouped(length)),
                 "an llm.c header of 1,024 bytes");
  }
  const std::uint32_t version = word_at(file, 1);
  if (version != kind->version) {
    return wrong(path, fmt::format("has version {} of llm.c's format {}", version, kind->magic),
                 fmt::format("version {}", kind->version));
  }
  const LlmcHeader header{kind->width, word_at(file, 2)};
  const std::int64_t whole = kLlmcHeaderBytes + header.tokens * bytes_of(header.width);
  if (whole != length) {
    return wrong(path,
                 fmt::format("{} {} bytes", length < whole ? "is truncated: it has" : "has",
                             grouped(length)),
                 fmt::format("{} for the {} tokens of {} bytes that its header counts",
                             grouped(whole), grouped(header.tokens), bytes_of(header.width)));
  }
  return header;
}

std::string write_llmc_header(const LlmcHeader& header) {
  const Kind& kind = kKinds[header.width == TokenWidth::kTwo ? 0 : 1];
  QD_CHECK(kind.width == header.width);
  QD_CHECK(header.tokens >= 0 && header.tokens <= std::numeric_limits<std::int32_t>::max());
  const std::array<std::uint32_t, 3> words = {kind.magic, kind.version,
                                              static_cast<std::uint32_t>(header.tokens)};
  std::string text(kLlmcHeaderBytes, '\0');
  std::memcpy(text.data(), words.data(), sizeof(words));
  return text;
}

}  // namespace quadrille::internal
