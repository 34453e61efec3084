// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of SwiGLU on flat arrays.

#include <cstdint>

namespace quadrille::internal {

struct HostSwiglu {
  const float* gate = nullptr;
  const float* up = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;
};
void host_swiglu_forward(const HostSwiglu& arguments);

struct HostSwigluBackward {
  const float* gate = nullptr;
  const float* up = nullptr;
  const float* dy = nullptr;
  float* dgate = nullptr;
  float* dup = nullptr;
  std::int64_t count = 0;
};
void host_swiglu_backward(const HostSwigluBackward& arguments);

}  // namespace quadrille::internal
