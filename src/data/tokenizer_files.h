// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tokenizers as other tools write them: texts of files in, a checked definition out. The parsers
// take texts, so that they can be tried with any.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe_tokenizer.h"
#include "quadrille/base/json.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

/// One file: its path for messages, and what it holds.
struct FileText {
  std::string path;
  std::string text;
};

/// What tokenizer_config.json says beside the tokenizer itself; the texts of tokens.
struct TokenizerConfig {
  std::optional<std::string> begin_of_text;
  std::optional<std::string> end_of_text;
};
[[nodiscard]] Result<TokenizerConfig> parse_tokenizer_config(const FileText& file);

/// GPT-2's two files. The token "<|endoftext|>", where the vocabulary has it, is special.
[[nodiscard]] Result<BpeDefinition> parse_gpt2_files(const FileText& vocabulary,
                                                     const FileText& merges,
                                                     const TokenizerConfig& config);

/// A tokenizer.json of byte-level BPE. Whatever in it would change ids and is not known here
/// (normalizers, other models, other ways of splitting) is refused by name.
[[nodiscard]] Result<BpeDefinition> parse_tokenizer_json(const FileText& file,
                                                         const TokenizerConfig& config);

// Parts of the two above.

/// Written tokens (in the byte alphabet) and their ids.
using WrittenVocabulary = std::unordered_map<std::string_view, std::int32_t>;
[[nodiscard]] tl::unexpected<Error> fail_in_file(const std::string& file, int line,
                                                 std::string path, std::string wrong,
                                                 std::string right);
/// An object of tokens and ids; the keys live in `json`.
[[nodiscard]] Result<WrittenVocabulary> vocabulary_from(const std::string& file, const Json& json,
                                                        const std::string& path);
/// The bytes of every token by id. A token that is not of the byte alphabet must be an added one.
[[nodiscard]] Result<std::vector<std::string>> token_bytes(const std::string& file,
                                                           const WrittenVocabulary& vocabulary,
                                                           const std::vector<AddedToken>& added);
/// One merge, or why it is none.
[[nodiscard]] Result<BpeMerge> merge_of(const WrittenVocabulary& vocabulary, std::string_view left,
                                        std::string_view right);
/// The ids of the config's tokens, or of those that are usual.
[[nodiscard]] Result<void> find_text_ends(const TokenizerConfig& config, const std::string& file,
                                          BpeDefinition& definition);

}  // namespace quadrille::internal
