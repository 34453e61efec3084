// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Enum <-> text from one table per enum, so that no second switch can drift from the first.
// Next to the enum: `inline constexpr EnumTable<Schedule, 2> kScheduleText{{{
//     {Schedule::kGpipe, "gpipe"}, {Schedule::kOneFOneB, "1f1b"}}}};`

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quadrille {

template <class E, std::size_t N>
struct EnumTable {
  std::array<std::pair<E, std::string_view>, N> rows;

  [[nodiscard]] constexpr std::string_view text(E value) const {
    for (const auto& [candidate, name] : rows) {
      if (candidate == value) return name;
    }
    return "?";
  }
  [[nodiscard]] constexpr std::optional<E> value(std::string_view name) const {
    for (const auto& [candidate, text] : rows) {
      if (text == name) return candidate;
    }
    return std::nullopt;
  }
  /// `"gpipe", "1f1b"`, for messages that say what would be right.
  [[nodiscard]] std::string choices() const {
    std::string all;
    for (const auto& [candidate, name] : rows) {
      if (!all.empty()) all += ", ";
      all += '"';
      all += name;
      all += '"';
    }
    return all;
  }
};

}  // namespace quadrille
