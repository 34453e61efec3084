// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of the collectives.

#include <cstddef>
#include <cstdint>
#include <span>

#include "quadrille/device/tensor_view.h"

namespace quadrille::internal {

inline constexpr int kEveryBuffer = -1;

/// The sum of all buffers in order, into buffers[target] or kEveryBuffer.
void host_sum_buffers(std::span<float* const> buffers, int target, std::int64_t count);
void host_sum_buffers(std::span<BFloat16* const> buffers, int target, std::int64_t count);

void host_copy_past_caches(const std::byte* source, std::byte* target, std::int64_t bytes);

}  // namespace quadrille::internal
