// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of layer norm.

#include "quadrille/kernels/layer_norm.h"

namespace quadrille::internal {

void host_layer_norm_forward(const kernels::LayerNormForward& arguments);
void host_layer_norm_backward(const kernels::LayerNormBackward& arguments);

}  // namespace quadrille::internal
