// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps a second run from saving into the same directory, where each would take the other's
// unfinished folders for leftovers. The kernel's lock ends with its holder, however that dies.

#include <string>

#include "quadrille/base/result.h"

namespace quadrille::internal {

class DirectoryLock {
 public:
  /// Errors: kInvalid where another run saves there.
  [[nodiscard]] static Result<DirectoryLock> take(const std::string& directory);
  DirectoryLock() = default;
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  int descriptor_ = -1;
};

}  // namespace quadrille::internal
