// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/layout.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <set>

#include "quadrille/base/text.h"

namespace quadrille {
namespace {

constexpr std::int64_t kMostRanks = 65'536;

struct Word {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
};
// Degrees that this version does not have must be 1.
constexpr std::array<Word, 7> kWords{{{"data", 1, kMostRanks},
                                      {"tensor", 1, kMostRanks},
                                      {"pipeline", 1, 1},
                                      {"context", 1, 1},
                                      {"sequence", 0, 1},
                                      {"sharding", 0, 3},
                                      {"micro_batch", 1, std::int64_t{1} << 31}}};

const Word* find_word(std::string_view name) {
  for (const Word& word : kWords) {
    if (word.name == name) return &word;
  }
  return nullptr;
}

Error wrong_word(std::string_view text, std::string wrong, std::string right) {
  return {
      Code::kInvalid, fmt::format("the layout \"{}\": {}; expected {}", text, wrong, right), {}};
}

std::optional<std::int64_t> number_from(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void put(Layout& layout, std::string_view name, std::int64_t value) {
  if (name == "data") layout.parallel.data = value;
  if (name == "tensor") layout.parallel.tensor = value;
  if (name == "sequence") layout.parallel.sequence = value == 1;
  if (name == "sharding") layout.parallel.sharding = value;
  if (name == "micro_batch") layout.micro_batch = value;
}

std::string names_text() {
  std::string names;
  for (const Word& word : kWords) names += (names.empty() ? "" : ", ") + std::string(word.name);
  return names;
}

}  // namespace

Result<Layout> parse_layout(std::string_view text) {
  Layout layout;
  std::set<std::string, std::less<>> named;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const Word* word = find_word(name);
    if (word == nullptr || equals == std::string::npos) {
      return fail(wrong_word(text, fmt::format("\"{}\" is no part of one", part),
                             "NAME=NUMBER with a name of " + names_text()));
    }
    if (!named.insert(name).second) {
      return fail(wrong_word(text, fmt::format("\"{}\" stands twice", name), "it once"));
    }
    const auto value = number_from(std::string_view(part).substr(equals + 1));
    if (!value || *value < word->least || *value > word->most) {
      return fail(wrong_word(text, fmt::format("\"{}\" is out of range", part),
                             fmt::format("{} from {} to {}", name, word->least, word->most)));
    }
    put(layout, name, *value);
  }
  return layout;
}

std::string layout_text(const ParallelSpec& parallel) {
  std::string text =
      parallel.is_auto() ? std::string("data=auto") : fmt::format("data={}", parallel.data);
  if (parallel.tensor != 1) text += fmt::format(",tensor={}", parallel.tensor);
  if (parallel.sequence) text += ",sequence=1";
  if (parallel.sharding != 0) text += fmt::format(",sharding={}", parallel.sharding);
  return text;
}

}  // namespace quadrille
