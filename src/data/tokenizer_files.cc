// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "data/byte_alphabet.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kMostIds = std::int64_t{1} << 24;

/// Null, a text, or an object with the text in `content`.
Result<std::optional<std::string>> token_of(const FileText& file, const Json& json,
                                            const char* key) {
  const Json* value = json.find(key);
  if (value != nullptr && value->is_object()) value = value->find("content");
  if (value == nullptr || value->is_null()) return std::optional<std::string>();
  if (value->is_string()) return std::optional<std::string>(value->as_string());
  return fail_in_file(file.path, value->line(), key, std::string(to_text(value->kind())),
                      "the text of a token");
}

std::optional<std::int32_t> added_id(const BpeDefinition& definition, std::string_view text) {
  for (const AddedToken& token : definition.added) {
    if (token.text == text) return token.id;
  }
  return std::nullopt;
}

}  // namespace

tl::unexpected<Error> fail_in_file(const std::string& file, int line, std::string path,
                                   std::string wrong, std::string right) {
  Error error{Code::kInvalid, "the tokenizer cannot be used", {}};
  error.diagnostics.push_back({file, line, std::move(path), std::move(wrong), std::move(right)});
  return fail(std::move(error));
}

Result<TokenizerConfig> parse_tokenizer_config(const FileText& file) {
  QD_ASSIGN_OR_RETURN(const Json json, parse_json(file.text, {.file = file.path}));
  TokenizerConfig config;
  QD_ASSIGN_OR_RETURN(config.begin_of_text, token_of(file, json, "bos_token"));
  QD_ASSIGN_OR_RETURN(config.end_of_text, token_of(file, json, "eos_token"));
  return config;
}

Result<WrittenVocabulary> vocabulary_from(const std::string& file, const Json& json,
                                          const std::string& path) {
  if (!json.is_object()) {
    return fail_in_file(file, json.line(), path, std::string(to_text(json.kind())),
                        "an object of tokens and their ids");
  }
  WrittenVocabulary vocabulary;
  vocabulary.reserve(json.members().size());
  for (const auto& [token, id] : json.members()) {
    if (!id.is_integer() || id.as_integer() < 0 || id.as_integer() >= kMostIds) {
      return fail_in_file(file, id.line(), path, fmt::format("token \"{}\" has no id", token),
                          fmt::format("a whole number from 0 to {}", kMostIds - 1));
    }
    vocabulary.emplace(token, static_cast<std::int32_t>(id.as_integer()));
  }
  return vocabulary;
}

Result<std::vector<std::string>> token_bytes(const std::string& file,
                                             const WrittenVocabulary& vocabulary,
                                             const std::vector<AddedToken>& added) {
  std::int32_t most = -1;
  for (const auto& [written, id] : vocabulary) most = std::max(most, id);
  for (const AddedToken& token : added) most = std::max(most, token.id);
  std::vector<std::string> tokens(static_cast<std::size_t>(most + 1));
  for (const AddedToken& token : added) tokens[static_cast<std::size_t>(token.id)] = token.text;
  for (const auto& [written, id] : vocabulary) {
    std::string& bytes = tokens[static_cast<std::size_t>(id)];
    const auto decoded = bytes_from_alphabet(written);
    if (bytes == written && (!decoded || *decoded == written)) continue;  // an added token
    if (!bytes.empty()) {
      return fail_in_file(file, 0, "",
                          fmt::format("id {} has two meanings, one is \"{}\"", id, written),
                          "one token for each id");
    }
    if (!decoded || decoded->empty()) {
      return fail_in_file(file, 0, "",
                          fmt::format("token \"{}\" is not written in the byte alphabet", written),
                          "a vocabulary of byte-level BPE");
    }
    bytes = *decoded;
  }
  return tokens;
}

Result<BpeMerge> merge_of(const WrittenVocabulary& vocabulary, std::string_view left,
                          std::string_view right) {
  const std::string merged = std::string(left) + std::string(right);
  BpeMerge merge;
  for (const auto& [written, id] : {std::pair{left, &merge.left},
                                    {right, &merge.right},
                                    {std::string_view(merged), &merge.result}}) {
    const auto found = vocabulary.find(written);
    if (found == vocabulary.end()) {
      return fail(Code::kInvalid,
                  fmt::format("merge \"{} {}\" needs token \"{}\", which the vocabulary lacks",
                              left, right, written));
    }
    *id = found->second;
  }
  return merge;
}

Result<void> find_text_ends(const TokenizerConfig& config, const std::string& file,
                            BpeDefinition& definition) {
  const auto choose = [&](const std::optional<std::string>& given,
                          std::initializer_list<std::string_view> usual, const char* key,
                          std::optional<std::int32_t>& id) -> Result<void> {
    if (given) {
      id = added_id(definition, *given);
      if (id) return {};
      return fail_in_file(file, 0, key, fmt::format("\"{}\" in tokenizer_config.json", *given),
                          "one of the added tokens");
    }
    for (const std::string_view text : usual) {
      if (!id) id = added_id(definition, text);
    }
    return {};
  };
  QD_RETURN_IF_ERROR(choose(config.begin_of_text, {"<|begin_of_text|>", "<s>"}, "bos_token",
                            definition.begin_of_text));
  return choose(config.end_of_text, {"<|endoftext|>", "<|end_of_text|>", "</s>"}, "eos_token",
                definition.end_of_text);
}

}  // namespace quadrille::internal
