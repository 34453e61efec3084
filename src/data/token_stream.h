// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Several byte files as one stream of tokens, one token a byte, in the order in which they were
// appended. The files stay mapped and are never copied; reading is const and touches no shared
// state, so any number of threads may read at once.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quadrille/base/file.h"

namespace quadrille::internal {

/// How the pages will be asked for next; a hint to the kernel's read-ahead.
enum class PageOrder : std::uint8_t { kSequential, kRandom };

/// Where in which file something was found.
struct StreamPlace {
  std::size_t file = 0;  ///< In order of appending.
  std::int64_t offset = 0;
  std::int32_t token = 0;
};

class TokenStream {
 public:
  void append(MappedFile file);

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] const MappedFile& file(std::size_t index) const { return pieces_[index].file; }
  void advise(PageOrder order) const;

  /// Tokens [first, first + out.size()), which must exist.
  void read(std::int64_t first, std::span<std::int32_t> out) const;
  /// How often each token occurs in [first, first + count).
  [[nodiscard]] std::array<std::int64_t, 256> histogram(std::int64_t first,
                                                        std::int64_t count) const;
  /// The first token that is `limit` or more. Reads every byte.
  [[nodiscard]] std::optional<StreamPlace> first_at_least(std::int64_t limit) const;

 private:
  struct Piece {
    MappedFile file;
    std::int64_t first = 0;  ///< Stream position of the file's first token.
  };
  /// Calls `visit` with the bytes of each file that [first, first + count) touches, in order.
  template <class Visit>
  void for_each_part(std::int64_t first, std::int64_t count, Visit visit) const;

  std::vector<Piece> pieces_;
  std::int64_t tokens_ = 0;
};

}  // namespace quadrille::internal
