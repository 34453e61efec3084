// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Invariants of our own code. A failed check is our bug: the process prints the expression, the
// place, the thread's rank (set_check_rank) and a backtrace, and aborts; the launcher then stops
// the other ranks.

#include <string_view>

namespace quadrille {

/// Prefixes failed checks of this thread with "rank N"; -1 for none.
void set_check_rank(int rank);

[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               std::string_view message);

}  // namespace quadrille

#define QD_CHECK(condition)                                          \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::quadrille::check_failed(#condition, __FILE__, __LINE__, {}); \
    }                                                                \
  } while (false)

/// The message is evaluated only when the check fails.
#define QD_CHECK_MSG(condition, message)                                    \
  do {                                                                      \
    if (!(condition)) [[unlikely]] {                                        \
      ::quadrille::check_failed(#condition, __FILE__, __LINE__, (message)); \
    }                                                                       \
  } while (false)
