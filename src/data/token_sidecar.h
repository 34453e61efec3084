// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// FILE.json beside a token file: what the ids mean and how many there are. It is believed only for
// the bytes it was written for, which length and fingerprint tell in no time however long the file.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/data/token_file.h"

namespace quadrille::internal {

struct TokenSidecar {
  std::int64_t bytes = 0;
  std::string fingerprint;
  std::string hash;  ///< Of all bytes.
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t largest_id = -1;
  TokenizerRecord tokenizer;
  std::vector<std::string> sources;
  /// Of the first documents, at most kMostDocumentStarts.
  std::vector<std::int64_t> document_starts;
};

/// More would make a text file that is itself slow to read; each document's end can be seen by the
/// end-of-text in the data.
inline constexpr std::size_t kMostDocumentStarts = 65536;

[[nodiscard]] std::string sidecar_path(const std::string& data_path);

/// Of the length and of 256 blocks of 4 KiB at even distances, the first and the last among them:
/// another file of the same length is told apart unless it differs only between the blocks.
[[nodiscard]] std::string fingerprint_of(std::span<const std::byte> bytes);

[[nodiscard]] std::string write_sidecar(const TokenSidecar& sidecar);
/// Errors: kInvalid naming `path` and the first thing that is wrong.
[[nodiscard]] Result<TokenSidecar> parse_sidecar(std::string_view text, const std::string& path);

/// The sidecar of a data file whose bytes these are; nothing where there is none. Errors: kInvalid,
/// also where it was written for other bytes.
[[nodiscard]] Result<std::optional<TokenSidecar>> read_sidecar(const std::string& data_path,
                                                               std::span<const std::byte> bytes);

}  // namespace quadrille::internal
