// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One file of a corpus, mapped and checked: text, an llm.c shard or a Megatron pair. Which it is,
// its name and its first bytes say: .bin and .idx must be token files, anything else is text unless
// it begins like a shard.

#include <optional>
#include <string>
#include <vector>

#include "data/megatron_index.h"
#include "data/token_run.h"
#include "data/token_sidecar.h"
#include "quadrille/base/file.h"
#include "quadrille/data/token_file.h"

namespace quadrille::internal {

struct OpenedFile {
  std::string path;  ///< As the user named it.
  MappedFile data;   ///< The bytes of text or tokens.
  TokenFormat format = TokenFormat::kText;
  std::optional<MappedFile> index_file;
  std::optional<MegatronIndex> index;  ///< Of a Megatron pair.
  std::optional<TokenSidecar> sidecar;
  /// The tokens of text whose tokenizer is not "bytes"; replaces `data` as what is read.
  std::optional<std::vector<std::int32_t>> encoded;

  /// All tokens as they lie there, headers left out. With a Megatron index its sequences say which
  /// of them count and in what order.
  [[nodiscard]] TokenRun tokens() const;
  /// A sequence of the index.
  [[nodiscard]] TokenRun sequence(std::int64_t number) const;
};

/// `path` names a file, or a Megatron pair by either of its files or by their common prefix.
/// Errors: kNotFound, kInvalid in one sentence that names the file.
[[nodiscard]] Result<OpenedFile> open_data_file(const std::string& path);

}  // namespace quadrille::internal
