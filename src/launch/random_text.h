// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Secrets and unique names, from the kernel: nothing that a run's numbers depend on.

#include <cstddef>
#include <string>

#include "quadrille/base/result.h"

namespace quadrille::internal {

/// `bytes` random bytes as hexadecimal digits. Errors: kInternal.
[[nodiscard]] Result<std::string> random_hex(std::size_t bytes);

}  // namespace quadrille::internal
