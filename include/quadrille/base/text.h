// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small things about words that messages need.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quadrille {

/// Optimal string alignment distance: insertions, deletions, substitutions, neighbours swapped.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or nothing if none is near enough to be meant (distance at most
/// a third of the longer word, at least 1). Ties go to the first.
[[nodiscard]] std::optional<std::string_view> nearest_word(
    std::string_view word, std::span<const std::string_view> candidates);

[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator);
/// Well-formed UTF-8, which JSON text has to be.
[[nodiscard]] bool is_utf8(std::string_view text);
/// 1234567 -> "1,234,567".
[[nodiscard]] std::string grouped(long long number);
/// For a shell: quoted only where it has to be.
[[nodiscard]] std::string shell_quoted(std::string_view word);

}  // namespace quadrille
