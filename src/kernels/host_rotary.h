// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of rotary positions.

#include "quadrille/kernels/rotary.h"

namespace quadrille::internal {

void host_rotary(const kernels::Rotary& arguments);

}  // namespace quadrille::internal
