// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Words to the user. Results go to standard output, everything else to standard error.

#include <string_view>

namespace quadrille::launcher {

void print(std::string_view text);       ///< Standard output, as it is.
void print_line(std::string_view text);  ///< With a newline.
/// Everything printed so far has been written.
[[nodiscard]] bool is_printed();
void complain(std::string_view text);  ///< Standard error, with a newline.

/// One line that is rewritten in place on a terminal and printed now and then elsewhere.
class LiveLine {
 public:
  LiveLine();
  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  [[nodiscard]] int columns() const;
  void show(std::string_view line);  ///< Replaces the line; nothing where this is no terminal.
  void end();                        ///< The next print starts on a line of its own.

 private:
  bool is_terminal_ = false;
  bool is_shown_ = false;
};

}  // namespace quadrille::launcher
