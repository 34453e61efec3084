// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the command line as a user would: a child process with its output kept, a time limit, and
// signals at chosen moments.

#include <functional>
#include <string>
#include <vector>

#include "quadrille/base/units.h"

namespace quadrille::test {

struct CommandResult {
  int exit_code =
      -1;  ///< 128 + signal where one ended it; -1 when the limit passed (it is then killed).
  std::string output;  ///< Standard output.
  std::string errors;  ///< Standard error.
};

class Command {
 public:
  /// Starts at once, in `folder` (empty: the current one), with `input` on standard input.
  explicit Command(std::vector<std::string> arguments, const std::string& folder = {},
                   const std::string& input = {});
  ~Command();  ///< Kills what still runs.
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  void send(int signal) const;
  /// Polls until `condition` holds; false when the process ended or the limit passed before.
  [[nodiscard]] bool wait_until(const std::function<bool()>& condition,
                                Seconds limit = Seconds(30));
  /// What it has printed so far.
  [[nodiscard]] std::string output() const;
  [[nodiscard]] CommandResult wait(Seconds limit = Seconds(60));

 private:
  [[nodiscard]] bool poll_end();

  int pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::string output_file_;
  std::string error_file_;
  std::string input_file_;
};

/// Starts and waits.
[[nodiscard]] CommandResult run_command(std::vector<std::string> arguments,
                                        const std::string& folder = {},
                                        const std::string& input = {});

/// Processes whose command line contains `text` (zombies not counted).
[[nodiscard]] std::vector<int> processes_with(const std::string& text);

}  // namespace quadrille::test
