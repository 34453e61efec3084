// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/utf8.h"

#include <cstdint>
#include <cstring>

namespace quadrille::internal {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

bool is_continuation(unsigned byte) { return (byte & 0xC0) == 0x80; }

/// Length of the character that a first byte announces; 0 for a byte that begins none.
std::size_t announced_length(unsigned first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

/// The second byte rules out overlong forms, surrogates and what lies beyond U+10FFFF.
bool is_second_byte(unsigned first, unsigned second) {
  if (!is_continuation(second)) return false;
  if (first == 0xE0) return second >= 0xA0;
  if (first == 0xED) return second < 0xA0;
  if (first == 0xF0) return second >= 0x90;
  if (first == 0xF4) return second < 0x90;
  return true;
}

/// Length of the character at `i`, 0 where there is no whole and well-formed one.
std::size_t character_length(std::string_view text, std::size_t i) {
  const unsigned first = byte_at(text, i);
  const std::size_t length = announced_length(first);
  if (length == 0 || text.size() - i < length) return 0;
  if (length > 1 && !is_second_byte(first, byte_at(text, i + 1))) return 0;
  for (std::size_t k = 2; k < length; ++k) {
    if (!is_continuation(byte_at(text, i + k))) return 0;
  }
  return length;
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - i >= sizeof eight) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const std::size_t length = character_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return i;
}

bool may_become_character(std::string_view text) {
  if (text.empty() || text.size() >= announced_length(byte_at(text, 0))) return false;
  if (text.size() > 1 && !is_second_byte(byte_at(text, 0), byte_at(text, 1))) return false;
  return text.size() < 3 || is_continuation(byte_at(text, 2));
}

}  // namespace quadrille::internal
