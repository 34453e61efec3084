// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/check.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace quadrille {
namespace {

thread_local int check_rank = -1;

}  // namespace

void set_check_rank(int rank) { check_rank = rank; }

void check_failed(const char* expression, const char* file, int line, std::string_view message) {
  if (check_rank >= 0) std::fprintf(stderr, "rank %d: ", check_rank);
  std::fprintf(stderr, "check failed: %s at %s:%d", expression, file, line);
  if (!message.empty()) {
    std::fprintf(stderr, ": %.*s", static_cast<int>(message.size()), message.data());
  }
  std::fputc('\n', stderr);
  std::fflush(stderr);
  // backtrace_symbols_fd allocates nothing, so it also works when the heap is what broke.
  std::array<void*, 64> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  std::abort();
}

}  // namespace quadrille
