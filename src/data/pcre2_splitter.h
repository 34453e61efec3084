// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cuts a text into the words that BPE encodes on their own, by a tokenizer's split pattern. Matches
// of the pattern are words, and so is what lies between two matches. Bytes that are not UTF-8 are
// words of one byte; the text before and after one is split as if it ended and began there.
//
// A part of a text can be split before the rest is known: the matcher says when a match has looked
// at the end of what there is, and what follows could have changed it. Only matches that have not
// are given out, so words do not depend on how a text came in parts.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"

namespace quadrille::internal {

/// Those of GPT-2 and of Llama 3.
extern const std::string_view kGpt2Pattern;
extern const std::string_view kLlama3Pattern;

class Splitter {
 public:
  /// A pattern as tokenizer files write them. Errors: kInvalid with the place in the pattern; a
  /// pattern that looks behind is refused, since parts of a text could then not be split alone.
  [[nodiscard]] static Result<Splitter> create(std::string_view pattern);
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;
  ~Splitter();

  /// No word of this pattern has a space after anything but white space: a text may be cut before
  /// a space between two other characters, and both parts be split alone.
  [[nodiscard]] bool cuts_before_space() const { return cuts_before_space_; }

 private:
  friend class WordCursor;
  struct Pattern;
  Splitter();
  std::unique_ptr<Pattern> compiled_;
  bool cuts_before_space_ = false;
};

/// Walks over the words of one text. For one thread.
class WordCursor {
 public:
  /// The text and the splitter outlive the cursor. `last`: nothing will follow the text.
  WordCursor(const Splitter& splitter, std::string_view text, bool last);
  ~WordCursor();
  WordCursor(const WordCursor&) = delete;
  WordCursor& operator=(const WordCursor&) = delete;

  /// Where the next words end, some thousand at a time; none when all that is certain was given.
  /// Valid until the next call. Errors: kInvalid where the matcher reaches its limits.
  [[nodiscard]] Result<std::span<const std::size_t>> next();

 private:
  struct Match;
  /// Ends of the words up to and with the next match; false when nothing more is certain.
  [[nodiscard]] Result<bool> step();
  [[nodiscard]] Result<bool> step_in_segment();
  void begin_segment();

  const Splitter& splitter_;
  std::string_view text_;
  bool last_;
  std::unique_ptr<Match> match_;
  std::vector<std::size_t> ends_;
  std::size_t place_ = 0;
  std::size_t segment_ = 0;      ///< Well-formed UTF-8 begins here ...
  std::size_t segment_end_ = 0;  ///< ... and ends here.
};

}  // namespace quadrille::internal
