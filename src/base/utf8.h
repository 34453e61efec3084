// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Well-formed UTF-8, byte by byte (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).

#include <cstddef>
#include <string_view>

namespace quadrille::internal {

/// Bytes of the character at the start of `text`; 0 where it is not UTF-8 (or `text` is empty).
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// Offset of the first byte that is not UTF-8, or npos.
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view text);

}  // namespace quadrille::internal
