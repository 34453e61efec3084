// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Byte-level BPE: GPT-2's and those built like it. The text is split into words, and each word's
// bytes are merged into tokens. Every byte is a token, so that any bytes can be encoded and come
// back.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/added_tokens.h"
#include "data/bpe_merges.h"
#include "quadrille/base/result.h"
#include "quadrille/data/tokenizer.h"

namespace quadrille::internal {

/// What files say about a tokenizer of this kind, checked.
struct BpeDefinition {
  std::string name;
  std::vector<std::string> tokens;  ///< Bytes by id; empty where an id is not used.
  std::vector<BpeMerge> merges;
  std::vector<AddedToken> added;  ///< Also in `tokens`.
  std::string pattern;
  /// A word that is a token becomes that token, whatever the merges make of it.
  bool ignore_merges = false;
  std::optional<std::int32_t> begin_of_text;
  std::optional<std::int32_t> end_of_text;
};

/// Where a tokenizer comes from: its files and their hash.
struct TokenizerSource {
  std::vector<std::string> files;
  std::string hash;
};

/// Errors: kInvalid where a byte is no token or the pattern cannot be used.
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> make_bpe_tokenizer(BpeDefinition definition,
                                                                    TokenizerSource source);

}  // namespace quadrille::internal
