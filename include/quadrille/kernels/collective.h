// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arithmetic of collectives that reach every rank's memory. Each sum adds in the order of its
// operands, element by element, so the bits do not depend on who computes which part. F32 or BF16;
// BF16 is added in fp32 and rounded once.

#include <span>

#include "quadrille/device/device.h"

namespace quadrille::kernels {

/// Every tensor = tensors[0] + tensors[1] + ... in that order. Equal element counts.
void sum_into_all(Stream& stream, std::span<const TensorView> tensors);

/// tensors[target] = the same sum; the others stay.
void sum_into_one(Stream& stream, std::span<const TensorView> tensors, int target);

/// target = source, of any one type. What is larger than caches is stored past them: the copy
/// neither reads the target first nor drives out what the caches hold.
void copy_past_caches(Stream& stream, const TensorView& source, const TensorView& target);

}  // namespace quadrille::kernels
