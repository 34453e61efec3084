// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where bytes are UTF-8 and where they are not.

#include <cstddef>
#include <string_view>

namespace quadrille::internal {

/// Length of the longest front that is well-formed UTF-8 of whole characters.
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text);
/// The text is the beginning of a character, and bytes to come may complete it.
[[nodiscard]] bool may_become_character(std::string_view text);

}  // namespace quadrille::internal
