// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One fused pass of AdamW over a tensor. Source: Loshchilov & Hutter 2019, "Decoupled weight decay
// regularization", algorithm 2, with bias correction and epsilon outside the root.

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// g = gradient * gradient_scale; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
/// p -= rate * (m / c1 / (sqrt(v / c2) + epsilon) + weight_decay * p), c1 = 1 - b1^step, c2 = 1 -
/// b2^step.
struct AdamW {
  TensorView parameter;
  TensorView gradient;
  TensorView first_moment;
  TensorView second_moment;
  float gradient_scale = 1;  ///< 1 / global tokens, times the clip coefficient.
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
  std::int64_t step = 1;  ///< From 1.
};
void adamw(Stream& stream, const AdamW& arguments);

}  // namespace quadrille::kernels
