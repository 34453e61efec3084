// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of attention.

#include "quadrille/kernels/attention.h"

namespace quadrille::internal {

void host_attention_forward(const kernels::AttentionForward& arguments);
void host_attention_backward(const kernels::AttentionBackward& arguments);
void host_attention_cached(const kernels::AttentionCached& arguments);

}  // namespace quadrille::internal
