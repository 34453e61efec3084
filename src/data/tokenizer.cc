// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/tokenizer.h"

#include <utility>

#include "data/byte_tokenizer.h"
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

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& name) {
  if (name == "bytes") return internal::make_byte_tokenizer();
  Error error{Code::kInvalid, "the tokenizer is not known", {}};
  error.diagnostics.push_back({"", 0, "data.tokenizer", "\"" + name + "\"", "\"bytes\""});
  return fail(std::move(error));
}

Result<void> copy_tokenizer(const Tokenizer& tokenizer, const std::string&) {
  QD_CHECK(tokenizer.files().empty());  // Only "bytes" exists.
  return {};
}

}  // namespace quadrille
