// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host mathematics of sampling.

#include "quadrille/kernels/sampling.h"

namespace quadrille::internal {

void host_sampling_weights(const kernels::SamplingWeights& arguments);

}  // namespace quadrille::internal
