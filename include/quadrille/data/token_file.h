// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files of token ids: llm.c's .bin shards (uint16 or uint32 after a header of 256 int32) and
// Megatron's .bin with its .idx. Beside one that `quadrille data prepare` wrote lies a sidecar,
// FILE.json: which tokenizer made the ids, its vocabulary, counts and the largest id. Text is
// described by the same words, one token a byte.

#include <cstdint>
#include <optional>
#include <string>

#include "quadrille/base/enum_text.h"
#include "quadrille/data/tokenizer.h"

namespace quadrille {

enum class TokenFormat : std::uint8_t { kText, kLlmc, kMegatron };
inline constexpr EnumTable<TokenFormat, 3> kTokenFormatText{
    {{{TokenFormat::kText, "text"},
      {TokenFormat::kLlmc, "llm.c"},
      {TokenFormat::kMegatron, "megatron"}}}};

/// Which tokenizer gave ids their meaning.
struct TokenizerRecord {
  std::string name;  ///< As data.tokenizer names it: "bytes" or a path.
  std::string hash;  ///< Of the text of every id: equal hashes read the same ids alike.
  std::int64_t vocabulary = 0;
  std::optional<std::int32_t> end_of_text;

  /// `"bytes" (256 ids, hash 0123...)`
  [[nodiscard]] std::string to_text() const;
};

/// `name` is what the job calls it. Reads the text of every id once.
[[nodiscard]] TokenizerRecord record_of(const Tokenizer& tokenizer, const std::string& name);

}  // namespace quadrille
