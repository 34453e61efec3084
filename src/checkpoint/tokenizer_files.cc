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
  const bool pair =
      path_exists(inside(folder, "vocab.json")) && path_exists(inside(folder, "merges.txt"));
  const bool one = path_exists(inside(folder, "tokenizer.json")) ||
                   path_exists(inside(folder, "tokenizer.model"));
  return pair || one ? folder : std::string(kByteTokenizer);
}

std::vector<std::string> tokenizer_folders(const std::string& checkpoint,
                                           const std::string& tokenizer) {
  if (tokenizer == kByteTokenizer) return {};
  const auto place = std::filesystem::path(checkpoint + "/").lexically_normal().parent_path();
  std::error_code failure;
  const bool is_folder = std::filesystem::is_directory(tokenizer, failure);
  return {(place.parent_path() / kTokenizerFolder).string(),
          is_folder ? tokenizer : std::filesystem::path(tokenizer).parent_path().string()};
}

Result<std::vector<std::string>> copy_tokenizer_files(const std::vector<std::string>& folders,
                                                      const std::string& target) {
  std::vector<std::string> copied;
  for (const std::string_view name : kNames) {
    for (const std::string& folder : folders) {
      if (!path_exists(inside(folder, name))) continue;
      QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(inside(folder, name)));
      QD_RETURN_IF_ERROR(write_file_atomically(inside(target, name), text));
      copied.emplace_back(name);
      break;
    }
  }
  if (!copied.empty() || folders.empty()) return copied;
  return fail(Code::kNotFound, "no file of the tokenizer is left in \"" + folders.back() + "\"");
}

}  // namespace quadrille::internal
