// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of the element-by-element operations: [first, first + count) of flat arrays.

#include <cstdint>

#include "quadrille/kernels/adamw.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {

void host_fill(float* target, std::int64_t count, float value);
void host_add(const float* source, float* target, std::int64_t count);
void host_scale(float* target, std::int64_t count, float factor);
void host_gelu_forward(const float* x, float* y, std::int64_t count);
void host_gelu_backward(const float* x, const float* dy, float* dx, std::int64_t count);

struct HostDropout {
  kernels::DropoutMask mask;
  const float* x = nullptr;
  const float* residual = nullptr;  ///< Null: none is added.
  float* out = nullptr;
  std::int64_t count = 0;
};
void host_dropout(const HostDropout& arguments);

struct HostFillNormal {
  RandomStream random;
  float deviation = 0;
  float* target = nullptr;
  std::int64_t count = 0;
  kernels::IndexRuns runs;
};
void host_fill_normal(const HostFillNormal& arguments);

void host_adamw(const kernels::AdamW& arguments);

}  // namespace quadrille::internal
