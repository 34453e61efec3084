// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// vocab.json is an object of tokens and ids; merges.txt has a merge a line, best first, after a
// line with its version. Both write bytes in the byte alphabet.

#include <fmt/format.h>

#include <utility>

#include "data/pcre2_splitter.h"
#include "data/tokenizer_files.h"

namespace quadrille::internal {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

Result<std::vector<BpeMerge>> parse_merges(const FileText& file,
                                           const WrittenVocabulary& vocabulary) {
  std::vector<BpeMerge> merges;
  std::string_view rest = file.text;
  for (int line = 1; !rest.empty(); ++line) {
    std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty() || (line == 1 && text.starts_with("#version"))) continue;
    const std::size_t space = text.find(' ');
    if (space == 0 || space >= text.size() - 1 || text.find(' ', space + 1) != text.npos) {
      return fail_in_file(file.path, line, "", fmt::format("\"{}\"", text.substr(0, 80)),
                          "two tokens with a space between them");
    }
    const auto merge = merge_of(vocabulary, text.substr(0, space), text.substr(space + 1));
    if (!merge) {
      return fail_in_file(file.path, line, "", merge.error().message, "merges of that vocabulary");
    }
    merges.push_back(*merge);
  }
  return merges;
}

}  // namespace

Result<BpeDefinition> parse_gpt2_files(const FileText& vocabulary, const FileText& merges,
                                       const TokenizerConfig& config) {
  QD_ASSIGN_OR_RETURN(const Json json, parse_json(vocabulary.text, {.file = vocabulary.path}));
  QD_ASSIGN_OR_RETURN(const WrittenVocabulary written, vocabulary_from(vocabulary.path, json, ""));
  BpeDefinition definition;
  definition.name = "gpt2 bpe";
  definition.pattern = kGpt2Pattern;
  const auto add = [&](std::string_view text) {
    const auto found = written.find(text);
    if (found == written.end()) return;
    for (const AddedToken& token : definition.added) {
      if (token.text == text) return;
    }
    definition.added.push_back({std::string(text), found->second, true});
  };
  add(kEndOfText);
  for (const auto& text : {config.begin_of_text, config.end_of_text}) {
    if (text) add(*text);
  }
  QD_ASSIGN_OR_RETURN(definition.tokens, token_bytes(vocabulary.path, written, definition.added));
  QD_ASSIGN_OR_RETURN(definition.merges, parse_merges(merges, written));
  QD_RETURN_IF_ERROR(find_text_ends(config, vocabulary.path, definition));
  return definition;
}

}  // namespace quadrille::internal
