// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The header of llm.c's token shards: 256 little-endian int32, of which the first three are magic,
// version and token count; the tokens follow. Magic 20240520, version 1: uint16. Magic 20240801,
// version 7: uint32. Source: llm.c, dev/data/data_common.py.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/token_run.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

inline constexpr std::int64_t kLlmcHeaderBytes = 256 * 4;

struct LlmcHeader {
  TokenWidth width = TokenWidth::kTwo;
  std::int64_t tokens = 0;
};

/// `front` begins with one of the two magics, in whatever byte order.
[[nodiscard]] bool looks_like_llmc(std::span<const std::byte> front);

/// Reads the header of a file of these bytes and checks it against the file's length. The count may
/// use all 32 bits. Errors: kInvalid, one sentence naming `path`, what is there and what belongs
/// there.
[[nodiscard]] Result<LlmcHeader> parse_llmc(std::span<const std::byte> file,
                                            const std::string& path);

/// The header's 1,024 bytes. `width` is kTwo or kFour, the count fits 31 bits.
[[nodiscard]] std::string write_llmc_header(const LlmcHeader& header);

}  // namespace quadrille::internal
