// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/text.h"

#include <algorithm>

#include "base/utf8.h"

namespace quadrille {

int edit_distance(std::string_view a, std::string_view b) {
  // Three rolling rows of the usual table; the third back is what a swap of neighbours looks at.
  const std::size_t width = b.size() + 1;
  std::vector<int> before(width), previous(width), current(width);
  for (std::size_t j = 0; j < width; ++j) previous[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < width; ++j) {
      const int substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::optional<std::string_view> nearest_word(std::string_view word,
                                             std::span<const std::string_view> candidates) {
  std::optional<std::string_view> nearest;
  int least = 0;
  for (const std::string_view candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    const int longer = static_cast<int>(std::max(word.size(), candidate.size()));
    if (distance > std::max(1, longer / 3)) continue;
    if (!nearest || distance < least) {
      nearest = candidate;
      least = distance;
    }
  }
  return nearest;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator, start)) {
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  parts.emplace_back(text.substr(start));
  return parts;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

bool is_utf8(std::string_view text) {
  return internal::find_invalid_utf8(text) == std::string_view::npos;
}

std::string grouped(long long number) {
  std::string digits = std::to_string(number);
  const std::size_t first_digit = number < 0 ? 1 : 0;
  for (std::size_t place = digits.size(); place > first_digit + 3;) {
    place -= 3;
    digits.insert(place, 1, ',');
  }
  return digits;
}

std::string shell_quoted(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  quoted += '\'';
  return quoted;
}

}  // namespace quadrille
