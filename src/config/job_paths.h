// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Paths in a job, as the rest of the program wants them: absolute, with globs expanded.

#include <string>
#include <vector>

namespace quadrille::internal {

/// Absolute and without "." and "..", taken from `folder` ("" is the current one).
[[nodiscard]] std::string absolute_path(const std::string& folder, const std::string& path);

/// Has one of `*?[` and is not itself a file.
[[nodiscard]] bool is_glob(const std::string& path);

/// Matches that are not folders, in byte order.
[[nodiscard]] std::vector<std::string> expand_glob(const std::string& pattern);

}  // namespace quadrille::internal
