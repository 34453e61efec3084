// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The gate of a gated feed-forward layer. Source: Shazeer 2020, "GLU variants improve transformer",
// section 2.

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// y = gate * sigmoid(gate) * up, element by element.
void swiglu_forward(Stream& stream, const TensorView& gate, const TensorView& up,
                    const TensorView& y);

/// dgate and dup are overwritten; either may be dy.
struct SwigluBackward {
  TensorView gate;
  TensorView up;
  TensorView dy;
  TensorView dgate;
  TensorView dup;
};
void swiglu_backward(Stream& stream, const SwigluBackward& arguments);

}  // namespace quadrille::kernels
