// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// SIGINT, SIGTERM and SIGHUP as something to read instead of something that interrupts. While it
// lives, the calling thread (and threads it starts from then on) has them blocked; make it before
// any other thread. Child processes get the former mask back.

#include <memory>
#include <vector>

#include "quadrille/base/result.h"

namespace quadrille {

class SignalPipe {
 public:
  [[nodiscard]] static Result<SignalPipe> create();
  SignalPipe(SignalPipe&& other) noexcept;
  SignalPipe& operator=(SignalPipe&& other) noexcept;
  ~SignalPipe();  ///< Restores the mask.

  /// Readable when a signal has arrived.
  [[nodiscard]] int descriptor() const;
  /// The signals since the last call; never blocks.
  [[nodiscard]] std::vector<int> read();

 private:
  struct State;
  explicit SignalPipe(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
