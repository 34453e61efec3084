// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The .idx beside a Megatron .bin: "MMIDIDX\0\0", version (uint64, 1), code of the token type
// (uint8), sequence count S and length D of the document index (uint64 each), S lengths (int32), S
// byte offsets into the .bin (int64), D sequence numbers (int64) that rise from 0 to S and bound
// D - 1 documents, and in multimodal data S modes (int8), which are not read. Nothing is aligned;
// all is little-endian. Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/token_run.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

/// A view of an index that was checked whole; the bytes outlive it.
class MegatronIndex {
 public:
  /// Checks every number against the others and against the .bin's length. Errors: kInvalid, one
  /// sentence naming `path`, what is there and what belongs there.
  [[nodiscard]] static Result<MegatronIndex> parse(std::span<const std::byte> index,
                                                   std::int64_t bin_bytes, const std::string& path);

  [[nodiscard]] TokenWidth width() const { return width_; }
  [[nodiscard]] std::int64_t sequences() const { return sequences_; }
  [[nodiscard]] std::int64_t documents() const { return documents_; }
  /// Of all sequences.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }

  /// Tokens of a sequence, and where its bytes begin in the .bin.
  [[nodiscard]] std::int64_t length(std::int64_t sequence) const;
  [[nodiscard]] std::int64_t offset(std::int64_t sequence) const;
  /// The sequences of document d are [document(d), document(d + 1)).
  [[nodiscard]] std::int64_t document(std::int64_t number) const;

 private:
  MegatronIndex() = default;
  [[nodiscard]] Result<void> check_sequences(std::int64_t bin_bytes, const std::string& path);
  [[nodiscard]] Result<void> check_documents(const std::string& path) const;

  TokenWidth width_ = TokenWidth::kTwo;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
  const std::byte* lengths_ = nullptr;
  const std::byte* offsets_ = nullptr;
  const std::byte* document_index_ = nullptr;
};

/// `front` begins with the format's magic.
[[nodiscard]] bool looks_like_megatron_index(std::span<const std::byte> front);

}  // namespace quadrille::internal
