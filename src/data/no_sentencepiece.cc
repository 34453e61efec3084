// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/sentencepiece_tokenizer.h"

namespace quadrille::internal {

Result<std::unique_ptr<Tokenizer>> make_sentencepiece_tokenizer(const FileText& model,
                                                                TokenizerSource) {
  return fail(Code::kUnavailable,
              "\"" + model.path +
                  "\" is a SentencePiece model, and this build has no SentencePiece library");
}

}  // namespace quadrille::internal
