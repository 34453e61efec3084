// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The file of the Hugging Face tokenizers library, as far as byte-level BPE goes: a BPE model, a
// pre-tokenizer that splits by a pattern (or GPT-2's, which ByteLevel implies), added tokens.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/pcre2_splitter.h"
#include "data/tokenizer_files.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kMostIds = std::int64_t{1} << 24;

class TokenizerJsonParser {
 public:
  TokenizerJsonParser(const FileText& file, const TokenizerConfig& config)
      : file_(file), config_(config) {}

  Result<BpeDefinition> parse() {
    QD_ASSIGN_OR_RETURN(const Json json, parse_json(file_.text, {.file = file_.path}));
    definition_.name = "tokenizer.json bpe";
    QD_RETURN_IF_ERROR(refuse(json, "", "normalizer"));
    QD_ASSIGN_OR_RETURN(const Json* model, object(json, "", "model"));
    if (model->string_or("type", "BPE") != "BPE") {
      return wrong(*model, "model.type", quoted(model->string_or("type", "")), "\"BPE\"");
    }
    QD_RETURN_IF_ERROR(read_added_tokens(json));
    QD_RETURN_IF_ERROR(read_pre_tokenizer(json));
    QD_RETURN_IF_ERROR(read_model(*model));
    QD_RETURN_IF_ERROR(find_text_ends(config_, file_.path, definition_));
    return std::move(definition_);
  }

 private:
  static std::string quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

  [[nodiscard]] tl::unexpected<Error> wrong(const Json& at, std::string path, std::string found,
                                            std::string right) const {
    return fail_in_file(file_.path, at.line(), std::move(path), std::move(found), std::move(right));
  }
  Result<const Json*> object(const Json& parent, const std::string& path, const char* key) const {
    const Json* value = parent.find(key);
    if (value == nullptr || !value->is_object()) {
      return wrong(value == nullptr ? parent : *value, path + key,
                   value == nullptr ? "missing" : std::string(to_text(value->kind())),
                   "an object, as in the tokenizer.json of byte-level BPE");
    }
    return value;
  }
  /// A member that must not say anything: absent, null, false or an empty text.
  Result<void> refuse(const Json& parent, const std::string& path, const char* key) const {
    const Json* value = parent.find(key);
    if (value == nullptr || value->is_null()) return {};
    if (value->is_bool() && !value->as_bool()) return {};
    if (value->is_string() && value->as_string().empty()) return {};
    return wrong(*value, path + key, write_json(*value).substr(0, 80),
                 "null: nothing else is known here");
  }

  Result<void> read_added_tokens(const Json& json) {
    const Json* list = json.find("added_tokens");
    if (list == nullptr || list->is_null()) return {};
    if (!list->is_array()) return wrong(*list, "added_tokens", "no array", "an array");
    for (const Json& entry : list->elements()) {
      AddedToken token{.text = entry.string_or("content", ""),
                       .special = entry.bool_or("special", false)};
      const std::int64_t id = entry.integer_or("id", -1);
      if (token.text.empty() || id < 0 || id >= kMostIds) {
        return wrong(entry, "added_tokens", write_json(entry).substr(0, 80),
                     "an object with `content` and `id`");
      }
      token.id = static_cast<std::int32_t>(id);
      // These take in or ask for neighbours of the token's text.
      for (const char* key : {"single_word", "lstrip", "rstrip"}) {
        QD_RETURN_IF_ERROR(refuse(entry, "added_tokens.", key));
      }
      definition_.added.push_back(std::move(token));
    }
    return {};
  }

  Result<void> read_pre_tokenizer(const Json& json) {
    QD_ASSIGN_OR_RETURN(const Json* top, object(json, "", "pre_tokenizer"));
    if (top->string_or("type", "") == "ByteLevel") return read_byte_level(*top);
    const Json* steps = top->find("pretokenizers");
    if (top->string_or("type", "") != "Sequence" || steps == nullptr || !steps->is_array() ||
        steps->elements().size() != 2) {
      return wrong(*top, "pre_tokenizer", quoted(top->string_or("type", "")),
                   "ByteLevel, or a Sequence of Split and ByteLevel");
    }
    QD_RETURN_IF_ERROR(read_split(steps->elements()[0]));
    return read_byte_level(steps->elements()[1]);
  }

  Result<void> read_split(const Json& split) {
    const Json* pattern = split.find("pattern");
    const std::string regex = pattern == nullptr ? "" : pattern->string_or("Regex", "");
    if (split.string_or("type", "") != "Split" || regex.empty()) {
      return wrong(split, "pre_tokenizer", write_json(split).substr(0, 80),
                   "a Split with a `Regex`");
    }
    const std::string behavior = split.string_or("behavior", "Isolated");
    if (behavior != "Isolated") {
      return wrong(split, "pre_tokenizer.behavior", quoted(behavior), "\"Isolated\"");
    }
    definition_.pattern = regex;
    return {};
  }

  Result<void> read_byte_level(const Json& step) {
    if (step.string_or("type", "") != "ByteLevel") {
      return wrong(step, "pre_tokenizer", quoted(step.string_or("type", "")), "ByteLevel");
    }
    QD_RETURN_IF_ERROR(refuse(step, "pre_tokenizer.", "add_prefix_space"));
    if (definition_.pattern.empty()) {
      if (!step.bool_or("use_regex", true)) {
        return wrong(step, "pre_tokenizer.use_regex", "false without a Split", "true");
      }
      definition_.pattern = kGpt2Pattern;
      return {};
    }
    if (!step.bool_or("use_regex", true)) return {};
    return wrong(step, "pre_tokenizer.use_regex", "true after a Split", "false");
  }

  Result<void> read_model(const Json& model) {
    for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix",
                            "end_of_word_suffix", "fuse_unk", "byte_fallback"}) {
      QD_RETURN_IF_ERROR(refuse(model, "model.", key));
    }
    definition_.ignore_merges = model.bool_or("ignore_merges", false);
    QD_ASSIGN_OR_RETURN(const Json* vocab, object(model, "model.", "vocab"));
    QD_ASSIGN_OR_RETURN(const WrittenVocabulary written,
                        vocabulary_from(file_.path, *vocab, "model.vocab"));
    QD_ASSIGN_OR_RETURN(definition_.tokens, token_bytes(file_.path, written, definition_.added));
    const Json* merges = model.find("merges");
    if (merges == nullptr || !merges->is_array()) {
      return wrong(model, "model.merges", "missing", "an array of pairs of tokens");
    }
    for (const Json& entry : merges->elements()) {
      const auto pair = pair_of(entry);
      if (!pair) {
        return wrong(entry, "model.merges", write_json(entry).substr(0, 80),
                     "two tokens, in an array or with a space between them");
      }
      const auto merge = merge_of(written, pair->first, pair->second);
      if (!merge) return wrong(entry, "model.merges", merge.error().message, "a matching pair");
      definition_.merges.push_back(*merge);
    }
    return {};
  }

  static std::optional<std::pair<std::string_view, std::string_view>> pair_of(const Json& entry) {
    if (entry.is_array() && entry.elements().size() == 2) {
      const Json& left = entry.elements()[0];
      const Json& right = entry.elements()[1];
      if (!left.is_string() || !right.is_string()) return std::nullopt;
      return std::pair<std::string_view, std::string_view>(left.as_string(), right.as_string());
    }
    if (!entry.is_string()) return std::nullopt;
    const std::string_view text = entry.as_string();
    const std::size_t space = text.find(' ');
    if (space == text.npos) return std::nullopt;
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }

  const FileText& file_;
  const TokenizerConfig& config_;
  BpeDefinition definition_;
};

}  // namespace

Result<BpeDefinition> parse_tokenizer_json(const FileText& file, const TokenizerConfig& config) {
  return TokenizerJsonParser(file, config).parse();
}

}  // namespace quadrille::internal
