// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What this process holds of the machine's memory.

#include <cstdint>

namespace quadrille::internal {

[[nodiscard]] std::int64_t resident_bytes();

}  // namespace quadrille::internal
