// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one pass of AdamW needs, apart from the loop that is compiled per instruction set.

namespace quadrille::internal {

/// The call's scalars, worked out once in double.
struct AdamWFactors {
  float gradient_scale = 1;
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float rate_over_c1 = 0;  ///< learning rate / (1 - beta1^step)
  float inverse_c2 = 0;    ///< 1 / (1 - beta2^step)
  float epsilon = 0;
  float decay = 0;  ///< learning rate * weight decay
};

struct AdamWArrays {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
};

}  // namespace quadrille::internal
