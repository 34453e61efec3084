// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A look into one file of a corpus: what it is, how much is in it, how it begins.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/data/token_file.h"

namespace quadrille {

struct InspectOptions {
  std::string tokenizer;       ///< Empty: the one that the sidecar names, where it can be read.
  std::int64_t documents = 3;  ///< How many of the first to show.
  std::int64_t tokens = 64;    ///< Of each, at most.
};

struct DocumentView {
  std::int64_t tokens = 0;
  std::vector<std::int32_t> front;  ///< The first tokens.
  std::optional<std::string> text;  ///< Them decoded, where a tokenizer is known.
};

/// What a token file holds, read from its first to its last byte.
struct TokenFileFacts {
  std::string path;
  TokenFormat format = TokenFormat::kText;
  std::int64_t bytes = 0;  ///< Of the file with the tokens.
  std::int64_t bytes_per_token = 1;
  std::int64_t tokens = 0;
  std::optional<std::int64_t> documents;  ///< Null where nothing says it.
  std::int64_t largest_id = -1;
  std::string hash;                          ///< Of all bytes.
  std::optional<TokenizerRecord> tokenizer;  ///< What the sidecar records.
  std::vector<std::string> sources;          ///< The same.
  std::vector<DocumentView> first_documents;
  std::vector<std::string> warnings;
};

/// Errors: kNotFound, kInvalid naming the file, what is wrong with it and what would be right; also
/// where the sidecar belongs to other bytes, or a tokenizer was named that the ids are not of.
[[nodiscard]] Result<TokenFileFacts> inspect_token_file(const std::string& path,
                                                        const InspectOptions& options);
[[nodiscard]] Json to_json(const TokenFileFacts& facts);

}  // namespace quadrille
