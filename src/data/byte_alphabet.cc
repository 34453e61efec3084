// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/byte_alphabet.h"

namespace quadrille::internal {
namespace {

constexpr std::size_t kPrinting = 188;
constexpr std::size_t kCharacters = 0x100 + 256 - kPrinting;  ///< All lie below U+0144.

bool prints(std::size_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

std::array<std::uint8_t, 256> make_order() {
  std::array<std::uint8_t, 256> order{};
  std::size_t next = 0;
  for (const bool printing : {true, false}) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (prints(byte) == printing) order[next++] = static_cast<std::uint8_t>(byte);
    }
  }
  return order;
}

std::size_t character_of(std::size_t place, std::uint8_t byte) {
  return place < kPrinting ? byte : 0x100 + place - kPrinting;
}

/// Byte of each character, -1 where there is none.
std::array<int, kCharacters> make_bytes() {
  std::array<int, kCharacters> bytes{};
  bytes.fill(-1);
  for (std::size_t place = 0; place < 256; ++place) {
    const std::uint8_t byte = byte_order()[place];
    bytes[character_of(place, byte)] = byte;
  }
  return bytes;
}

}  // namespace

const std::array<std::uint8_t, 256>& byte_order() {
  static const std::array<std::uint8_t, 256> order = make_order();
  return order;
}

std::optional<std::string> bytes_from_alphabet(std::string_view written) {
  static const std::array<int, kCharacters> bytes = make_bytes();
  std::string result;
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::size_t character = static_cast<unsigned char>(written[i]);
    if (character >= 0x80) {
      // Every character of the alphabet has at most two bytes in UTF-8.
      if ((character & 0xE0) != 0xC0 || i + 1 == written.size()) return std::nullopt;
      const auto second = static_cast<unsigned char>(written[++i]);
      if ((second & 0xC0) != 0x80) return std::nullopt;
      character = ((character & 0x1F) << 6) | (second & 0x3FU);
      if (character < 0x80) return std::nullopt;
    }
    if (character >= kCharacters || bytes[character] < 0) return std::nullopt;
    result += static_cast<char>(bytes[character]);
  }
  return result;
}

std::string byte_in_alphabet(std::uint8_t byte) {
  std::size_t place = 0;
  while (byte_order()[place] != byte) ++place;
  const std::size_t character = character_of(place, byte);
  if (character < 0x80) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
}

}  // namespace quadrille::internal
