// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One text on several threads, for tokenizers whose words never continue over a space: it is cut
// before single spaces between visible ASCII characters.

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "quadrille/data/tokenizer.h"

namespace quadrille::internal {

/// A text of fewer bytes a thread is not worth starting one.
inline constexpr std::size_t kBytesAThread = std::size_t{256} << 10;

/// The first space from `from` on that has visible ASCII characters on both sides; the text's size
/// where there is none.
[[nodiscard]] std::size_t next_space_between_words(std::string_view text, std::size_t from);

/// `encode` is called for consecutive parts at once, and must take in all of a part that is not the
/// last. Errors: the first part's that failed.
[[nodiscard]] Result<EncodedFront> encode_in_parallel(
    std::string_view text, int threads,
    const std::function<Result<EncodedFront>(const TextPart&)>& encode);

}  // namespace quadrille::internal
