// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The inputs of `prepare_tokens`, cut into work that threads can do in any order.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/file.h"
#include "quadrille/base/result.h"
#include "quadrille/data/prepare.h"

namespace quadrille::internal {

/// Whole lines of JSON, or a whole text.
struct DocumentWork {
  std::string_view text;
  const std::string* path = nullptr;
  std::int64_t first_line = 1;
  bool json_lines = false;
};

class DocumentSource {
 public:
  /// Maps every input. Errors: kNotFound, kInvalid (a folder, empty, a token file).
  [[nodiscard]] static Result<DocumentSource> open(const PrepareOptions& options);

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// The next work in order, about a megabyte of lines or one text file; none at the end.
  [[nodiscard]] std::optional<DocumentWork> next();

 private:
  struct Input {
    MappedFile file;
    bool json_lines = false;
  };
  std::vector<Input> inputs_;
  std::int64_t bytes_ = 0;
  std::size_t input_ = 0;
  std::size_t position_ = 0;  ///< In the current input.
  std::int64_t line_ = 1;
};

/// Documents one after the other.
struct EncodedDocuments {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> lengths;
};

/// The documents of JSON lines, or of one text. Errors: kInvalid with file and line; those of the
/// tokenizer.
[[nodiscard]] Result<EncodedDocuments> encode_documents(const DocumentWork& work,
                                                        const Tokenizer& tokenizer,
                                                        const std::string& field);

}  // namespace quadrille::internal
