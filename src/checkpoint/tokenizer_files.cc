// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tokenizer_files.h"

#include <array>
#include <filesystem>

#include "quadrille/base/file.h"

namespace quadrille::internal {
namespace {

/// All that transformers looks for beside the weights.
constexpr std::array<std::string_view, 7> kNames{"tokenizer.json",       "vocab.json",
                                                 "merges.txt",           "tokenizer.model",
                                                 "added_tokens.json",    "special_tokens_map.json",
                                                 "tokenizer_config.json"};

std::string inside(const std::string& folder, std::string_view name) {
  return folder + "/" + std::string(name);
}

}  // namespace

std::string tokenizer_in(const std::string& folder) {
  if (path_exists(inside(folder, "tokenizer.json"))) return inside(folder, "tokenizer.json");
  if (path_exists(inside(folder, "tokenizer.model"))) return inside(folder, "tokenizer.model");
  if (path_exists(inside(folder, "vocab.json")) && path_exists(inside(folder, "merges.txt"))) {
    return folder;
  }
  return std::string(kByteTokenizer);
}

Result<std::vector<std::string>> copy_tokenizer_files(const std::string& tokenizer,
                                                      const std::string& target) {
  std::vector<std::string> copied;
  if (tokenizer == kByteTokenizer) return copied;
  std::error_code failure;
  const bool is_folder = std::filesystem::is_directory(tokenizer, failure);
  const std::string folder =
      is_folder ? tokenizer : std::filesystem::path(tokenizer).parent_path().string();
  for (const std::string_view name : kNames) {
    const std::string source = inside(folder, name);
    if (!path_exists(source)) continue;
    QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(source));
    QD_RETURN_IF_ERROR(write_file_atomically(inside(target, name), text));
    copied.emplace_back(name);
  }
  if (!copied.empty()) return copied;
  return fail(Code::kNotFound, "the tokenizer \"" + tokenizer + "\" has no files any more");
}

}  // namespace quadrille::internal
