// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The host's name, by which messages say where a rank runs.

#include <string>

namespace quadrille::internal {

/// This machine's name, as peers would log it.
[[nodiscard]] std::string host_name();

}  // namespace quadrille::internal
