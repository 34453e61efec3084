// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A child in a session of its own (so that the terminal's Ctrl-C reaches only the launcher), which
// the kernel kills if the thread that started it dies.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/descriptor.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< Where no signal ended it.
  int signal = 0;  ///< 0: it exited.
  /// "exited with code 3", "was killed by signal 9 (Killed)".
  [[nodiscard]] std::string to_text() const;
};

struct ChildCommand {
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  ///< Added to our own.
  std::string output;  ///< File to which stdout and stderr are appended.
};

class ChildProcess {
 public:
  /// Errors: kNotFound where the program does not exist, kInternal.
  [[nodiscard]] static Result<ChildProcess> start(const ChildCommand& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) = delete;
  ~ChildProcess();  ///< Kills its group and reaps it, if that has not been done.

  [[nodiscard]] int pid() const { return pid_; }
  /// Readable when it has ended.
  [[nodiscard]] int descriptor() const { return pid_descriptor_.get(); }
  /// Nothing while it runs; never blocks.
  [[nodiscard]] std::optional<ExitStatus> ended();
  /// To the whole group, as long as the child has not been reaped.
  void signal_group(int signal);

 private:
  explicit ChildProcess(int pid, Descriptor descriptor)
      : pid_(pid), pid_descriptor_(std::move(descriptor)) {}
  int pid_ = -1;
  Descriptor pid_descriptor_;
  std::optional<ExitStatus> status_;
};

/// "9 (Killed)".
[[nodiscard]] std::string signal_text(int signal);

}  // namespace quadrille::internal
