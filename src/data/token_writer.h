// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes one llm.c token file and its sidecar, aside until commit.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_run.h"
#include "data/token_sidecar.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

class TokenWriter {
 public:
  /// Makes `path`.partial. Errors: kInvalid where another writer has it open; those of the disk.
  [[nodiscard]] static Result<std::unique_ptr<TokenWriter>> create(const std::string& path,
                                                                   TokenWidth width);
  ~TokenWriter();  ///< Removes what was not committed.

  /// A document begins with the next token; `separator` is written before it, but not at the
  /// file's begin.
  [[nodiscard]] Result<void> begin_document(std::optional<std::int32_t> separator);
  /// Errors: kInvalid past what the header's count can say; those of the disk.
  [[nodiscard]] Result<void> add(std::span<const std::int32_t> ids);
  /// Writes the header and flushes; the file is whole, and still aside.
  [[nodiscard]] Result<void> finish();
  /// After finish: makes the file visible, then its sidecar.
  [[nodiscard]] Result<void> commit(const TokenizerRecord& tokenizer,
                                    std::vector<std::string> sources);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t tokens() const { return sidecar_.tokens; }
  [[nodiscard]] std::int64_t documents() const { return sidecar_.documents; }
  [[nodiscard]] std::int64_t largest_id() const { return sidecar_.largest_id; }

 private:
  TokenWriter(std::string path, TokenWidth width) : path_(std::move(path)), width_(width) {}
  [[nodiscard]] std::string partial() const { return path_ + ".partial"; }
  [[nodiscard]] Result<void> flush();
  [[nodiscard]] Result<void> write_at(std::span<const char> bytes, std::int64_t offset) const;

  std::string path_;
  TokenWidth width_;
  int descriptor_ = -1;
  bool committed_ = false;
  std::int64_t written_ = 0;  ///< Bytes that are in the file.
  std::vector<char> buffer_;
  TokenSidecar sidecar_;
};

}  // namespace quadrille::internal
