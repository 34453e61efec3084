// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of the root-mean-square norm.

#include "quadrille/kernels/rms_norm.h"

namespace quadrille::internal {

void host_rms_norm_forward(const kernels::RmsNormForward& arguments);
void host_rms_norm_backward(const kernels::RmsNormBackward& arguments);

}  // namespace quadrille::internal
