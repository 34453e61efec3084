// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// SentencePiece models, such as Llama 2's tokenizer.model, by the SentencePiece library; without it
// a twin says so.

#include <memory>

#include "data/tokenizer_files.h"
#include "quadrille/base/result.h"
#include "quadrille/data/tokenizer.h"

namespace quadrille::internal {

/// Errors: kInvalid where the file is no such model; kUnavailable without the library.
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> make_sentencepiece_tokenizer(
    const FileText& model, TokenizerSource source);

}  // namespace quadrille::internal
