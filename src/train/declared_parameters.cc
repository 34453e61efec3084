// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/declared_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace quadrille::internal {
namespace {

/// What ranks must have declared alike, as lines: a difference is found by comparing texts.
std::string declarations_text(const std::vector<CustomParameter>& parameters) {
  std::string text;
  for (const CustomParameter& parameter : parameters) {
    text += fmt::format("\"{}\" {}, {}decayed, deviation {}, constant {}, {} contributions\n",
                        parameter.name, parameter.shape.to_text(), parameter.decayed ? "" : "not ",
                        parameter.initial_deviation, parameter.initial_constant,
                        parameter.contributions);
  }
  return text;
}

/// The first line in which the texts differ, of each.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto line = [](const std::string& text, std::ptrdiff_t offset) {
    const auto place = static_cast<std::size_t>(offset);
    const std::size_t start = place == 0 ? 0 : text.rfind('\n', place - 1) + 1;
    if (start >= text.size()) return std::string("no further one");
    return text.substr(start, text.find('\n', start) - start);
  };
  return {line(a, at - a.begin()), line(b, other - b.begin())};
}

}  // namespace

Result<void> check_alike(World& world, const std::vector<CustomParameter>& parameters) {
  CollectiveScope scope = world.whole().open("the declared parameters");
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                      world.whole().gather_bytes(scope, declarations_text(parameters)));
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const auto [first, here] = first_difference(texts[0], texts[rank]);
    return fail(Code::kInvalid, fmt::format("ranks have declared different parameters: rank 0 has "
                                            "{} where rank {} has {}",
                                            first, rank, here));
  }
  return {};
}

}  // namespace quadrille::internal
