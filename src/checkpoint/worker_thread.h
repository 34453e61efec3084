// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A helper thread where the system has one to give.

#include <functional>
#include <thread>

namespace quadrille::internal {

/// Runs `body` on `thread`; false where no thread is to be had, and the caller does the work.
[[nodiscard]] bool start_worker(std::thread& thread, std::function<void()> body);

}  // namespace quadrille::internal
