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

/// What a job's `data.tokenizer` would name for the tokenizer in a folder; `bytes` for none.
[[nodiscard]] std::string tokenizer_in(const std::string& folder);

/// Copies what belongs to a tokenizer (a file or a folder) into `target`; the names, none for
/// bytes. Errors: kNotFound where there is nothing left of it.
[[nodiscard]] Result<std::vector<std::string>> copy_tokenizer_files(const std::string& tokenizer,
                                                                    const std::string& target);

}  // namespace quadrille::internal
