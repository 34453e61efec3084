// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the disk under a folder does when it is written and read in one go, past the page cache.

#include <cstdint>
#include <string>

#include "quadrille/base/result.h"

namespace quadrille::internal {

/// Writes `bytes` to `path` in pieces of 4 MiB, to the disk; seconds. Where the file system has no
/// direct writes, through the page cache.
[[nodiscard]] Result<double> write_sequentially(const std::string& path, std::int64_t bytes);
/// Reads it back; seconds.
[[nodiscard]] Result<double> read_sequentially(const std::string& path);
/// Asks the kernel to forget the pages that it holds of the folder's files.
void forget_pages(const std::string& folder);

}  // namespace quadrille::internal
