// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hostile inputs without a fuzzing engine: the files of a corpus, and inputs made from them by
// small random damage. Deterministic, so that a failure comes back. The libFuzzer targets of
// tests/fuzz run on it in every test; with clang they run longer and guided by coverage.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/random.h"
#include "quadrille/base/result.h"

namespace quadrille::test {

/// The contents of the files in the folder, in the order of their names.
[[nodiscard]] Result<std::vector<std::string>> read_corpus(const std::string& folder);

/// The `index`-th damaged input: a file of the corpus (which must not be empty) after one to four
/// changes, such as a flipped bit, a cut, a repeated part, a piece of another file, a boundary
/// number.
[[nodiscard]] std::string mutated(std::span<const std::string> corpus, std::uint64_t seed,
                                  std::uint64_t index);

}  // namespace quadrille::test
