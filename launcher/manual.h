// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The manual page and the shell completion, from the same words as --help.

#include <string>
#include <vector>

namespace quadrille::launcher {

struct OptionText {
  std::string names;  ///< "-o,--output", or a positional's name.
  std::string value;  ///< "FILE"; empty for a flag.
  std::string what;
  std::string otherwise;  ///< The default; empty for none.
};

struct CommandText {
  std::string name;
  std::string what;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

/// roff for man(1).
[[nodiscard]] std::string manual_page(const CommandText& program);

/// A script for bash's `source`: commands, their options, and files.
[[nodiscard]] std::string bash_completion(const CommandText& program);

}  // namespace quadrille::launcher
