// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/tokenizer.h"

#include <utility>

#include "quadrille/base/check.h"

namespace quadrille {

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text,
                                                    const EncodeOptions& options) const {
  QD_ASSIGN_OR_RETURN(EncodedFront front, encode_front({.text = text}, options));
  QD_CHECK(front.bytes == text.size());
  return std::move(front.ids);
}

void Tokenizer::set_source(std::vector<std::string> files, std::string hash) {
  files_ = std::move(files);
  hash_ = std::move(hash);
}

}  // namespace quadrille
