// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/launch/signal_pipe.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "launch/descriptor.h"

namespace quadrille {

struct SignalPipe::State {
  internal::Descriptor descriptor;
  sigset_t former_mask{};
};

SignalPipe::SignalPipe(std::unique_ptr<State> state) : state_(std::move(state)) {}
SignalPipe::SignalPipe(SignalPipe&& other) noexcept = default;
SignalPipe& SignalPipe::operator=(SignalPipe&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

SignalPipe::~SignalPipe() {
  if (state_ != nullptr) ::pthread_sigmask(SIG_SETMASK, &state_->former_mask, nullptr);
}

Result<SignalPipe> SignalPipe::create() {
  auto state = std::make_unique<State>();
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&wanted, signal);
  state->descriptor = internal::Descriptor(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!state->descriptor.is_open()) return fail(errno_error("cannot receive signals", errno));
  const int blocked = ::pthread_sigmask(SIG_BLOCK, &wanted, &state->former_mask);
  if (blocked != 0) return fail(errno_error("cannot block signals", blocked));
  return SignalPipe(std::move(state));
}

int SignalPipe::descriptor() const { return state_->descriptor.get(); }

std::vector<int> SignalPipe::read() {
  std::vector<int> signals;
  signalfd_siginfo information{};
  while (::read(state_->descriptor.get(), &information, sizeof information) ==
         static_cast<ssize_t>(sizeof information)) {
    signals.push_back(static_cast<int>(information.ssi_signo));
  }
  return signals;
}

}  // namespace quadrille
