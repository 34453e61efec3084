// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of attention.

#include "kernels/host_head.h"
#include "quadrille/kernels/attention.h"

namespace quadrille::internal {

void host_attention_forward(const kernels::AttentionForward& arguments);
void host_attention_backward(const kernels::AttentionBackward& arguments);
void host_attention_cached(const kernels::AttentionCached& arguments);

/// All queries of one head, tile by tile, in the calling thread.
void host_attend_head(const HeadForward& head);

}  // namespace quadrille::internal
