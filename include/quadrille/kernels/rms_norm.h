// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Root-mean-square norm over rows. Source: Zhang & Sennrich 2019, "Root mean square layer
// normalization", section 3.

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// y = x * rstd * weight, row by row; rstd = 1 / sqrt(mean of x^2 + epsilon).
/// Shapes: x, y [N, H]; weight [H]; rstd [N].
struct RmsNormForward {
  TensorView x;
  TensorView weight;
  float epsilon = 1e-5F;
  TensorView y;
  TensorView rstd;
};
void rms_norm_forward(Stream& stream, const RmsNormForward& arguments);

/// dx += or = the gradient of x; weight_gradient is added to.
struct RmsNormBackward {
  TensorView dy;
  TensorView x;
  TensorView weight;
  TensorView rstd;
  TensorView dx;
  bool accumulate_dx = false;  ///< dx already holds the residual path's gradient.
  TensorView weight_gradient;
};
void rms_norm_backward(Stream& stream, const RmsNormBackward& arguments);

}  // namespace quadrille::kernels
