// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Layer norm over rows. Source: Ba, Kiros & Hinton 2016, section 3.

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// y = (x - mean) * rstd * weight + bias, row by row; rstd = 1 / sqrt(variance + epsilon).
/// Shapes: x, y [N, H]; weight, bias [H] (bias may be empty); mean, rstd [N].
struct LayerNormForward {
  TensorView x;
  TensorView weight;
  TensorView bias;
  float epsilon = 1e-5F;
  TensorView y;
  TensorView mean;
  TensorView rstd;
};
void layer_norm_forward(Stream& stream, const LayerNormForward& arguments);

/// dx += or = the gradient of x; weight_gradient and bias_gradient (may be empty) are added to.
struct LayerNormBackward {
  TensorView dy;
  TensorView x;
  TensorView weight;
  TensorView mean;
  TensorView rstd;
  TensorView dx;
  bool accumulate_dx = false;  ///< dx already holds the residual path's gradient.
  TensorView weight_gradient;
  TensorView bias_gradient;
};
void layer_norm_backward(Stream& stream, const LayerNormBackward& arguments);

}  // namespace quadrille::kernels
