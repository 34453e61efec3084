// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tokens that stand for a fixed text, found in a text before it is split into words: of those that
// begin at the leftmost place, the longest.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/data/tokenizer.h"

namespace quadrille::internal {

struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool special = true;  ///< Matched only when asked.
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = 0;
  };
  [[nodiscard]] std::optional<Found> find(std::string_view text, std::size_t from) const;
  /// Where the earliest token could begin that ends only in what follows `text`; the text's size
  /// where none could.
  [[nodiscard]] std::size_t unfinished(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;  ///< Longest first.
  std::array<bool, 256> begins_{};  ///< A token begins with this byte.
};

/// A part with the added tokens found in it, and the text between them encoded by `encode`, to
/// which an added token is an end of the text.
[[nodiscard]] Result<EncodedFront> encode_around(
    const AddedTokens& added, const TextPart& part,
    const std::function<Result<EncodedFront>(const TextPart&)>& encode);

}  // namespace quadrille::internal
