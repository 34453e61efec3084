// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a launch that was profiled shows at its end.

#include "quadrille/base/result.h"
#include "quadrille/launch/run_directory.h"

namespace quadrille::launcher {

/// Merges what the ranks left into profile.json and trace.json, with the rates that this machine
/// has for their operations measured now, and prints the table. Errors: kNotFound where a rank left
/// none (a custom trainer that ends otherwise); those of the files.
[[nodiscard]] Result<void> show_profile(const RunPaths& paths, int ranks);

}  // namespace quadrille::launcher
