// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files of a tokenizer, which travel with a model's weights. Nothing is read of them here.

#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"

namespace quadrille::internal {

/// The tokenizer that is not made of files.
inline constexpr std::string_view kByteTokenizer = "bytes";

/// A run's copy of its tokenizer's files, in the folder of its checkpoints.
inline constexpr std::string_view kTokenizerFolder = "tokenizer";

/// What a job's `data.tokenizer` would say for the tokenizer in a folder: the folder, or `bytes`.
[[nodiscard]] std::string tokenizer_in(const std::string& folder);

/// Where files of the tokenizer that a checkpoint names may be, none for bytes: the run's copy,
/// then the place that the tokenizer came from, which may have more (such as
/// tokenizer_config.json).
[[nodiscard]] std::vector<std::string> tokenizer_folders(const std::string& checkpoint,
                                                         const std::string& tokenizer);

/// Copies each file that transformers looks for from the first folder that has it; their names.
/// Errors: kNotFound where there are folders and none of them has any.
[[nodiscard]] Result<std::vector<std::string>> copy_tokenizer_files(
    const std::vector<std::string>& folders, const std::string& target);

}  // namespace quadrille::internal
