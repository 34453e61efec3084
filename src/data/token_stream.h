// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Several files as one stream of tokens, in the order in which they were appended. Between files,
// and between the documents of a Megatron file, stands the tokenizer's end-of-text where it has one
// and the data has none there. The files stay mapped and are never copied; reading is const and
// touches no shared state, so any number of threads may read at once.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/opened_file.h"
#include "data/token_run.h"

namespace quadrille::internal {

/// How the pages will be asked for next; a hint to the kernel's read-ahead.
enum class PageOrder : std::uint8_t { kSequential, kRandom };

/// Where in which file something was found.
struct StreamPlace {
  std::size_t file = 0;     ///< In order of appending.
  std::int64_t offset = 0;  ///< Tokens from the file's first one.
  std::int64_t token = 0;
};

class TokenStream {
 public:
  explicit TokenStream(std::optional<std::int32_t> end_of_text = {}) : separator_(end_of_text) {}

  void append(OpenedFile file);

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::span<const OpenedFile> files() const { return files_; }
  void advise(PageOrder order) const;

  /// Tokens [first, first + out.size()), which must exist.
  void read(std::int64_t first, std::span<std::int32_t> out) const;
  /// Adds how often each token occurs in [first, first + count) to `counts`, which has a place for
  /// each.
  void count(std::int64_t first, std::int64_t count, std::span<std::int64_t> counts) const;
  /// The first token that is `limit` or more. Reads every file, but those whose width or sidecar
  /// leaves no room for such a token.
  [[nodiscard]] std::optional<StreamPlace> first_at_least(std::int64_t limit) const;

 private:
  struct Piece {
    TokenRun run;
    std::int64_t first = 0;  ///< Stream position of the run's first token.
    std::size_t file = 0;
    bool separated = false;  ///< The separator follows the run.

    [[nodiscard]] std::int64_t end() const { return first + run.tokens + (separated ? 1 : 0); }
  };
  void append_run(const TokenRun& run, bool begins_document);
  /// Calls `visit` with each run that [first, first + count) touches, in order.
  template <class Visit>
  void for_each_part(std::int64_t first, std::int64_t count, Visit visit) const;

  std::optional<std::int32_t> separator_;
  std::vector<OpenedFile> files_;
  std::vector<Piece> pieces_;
  std::int64_t tokens_ = 0;
};

}  // namespace quadrille::internal
