// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Element-by-element operations. Operands of one call have equal element counts unless said
// otherwise.

#include "quadrille/base/random.h"
#include "quadrille/device/device.h"

namespace quadrille::kernels {

void fill(Stream& stream, const TensorView& target, float value);
void copy(Stream& stream, const TensorView& source, const TensorView& target);
/// target += source.
void add(Stream& stream, const TensorView& source, const TensorView& target);
/// target *= factor.
void scale(Stream& stream, const TensorView& target, float factor);

/// GELU with the tanh approximation: y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
/// Source: Hendrycks & Gimpel 2016, section 2.
void gelu_forward(Stream& stream, const TensorView& x, const TensorView& y);
/// dx = dy * gelu'(x); dx may be dy.
void gelu_backward(Stream& stream, const TensorView& x, const TensorView& dy, const TensorView& dx);

/// Which elements a dropout keeps is a function of the stream and the element's *global* index, so
/// it is the same however the batch is split: element i of the view is element `first + i` of the
/// whole.
struct DropoutMask {
  RandomStream stream;
  std::uint64_t first = 0;
  float probability = 0;  ///< Of dropping; kept elements are scaled by 1 / (1 - probability).
};
/// sum = residual + dropout(x). `sum` may be `residual`. With probability 0 a plain sum.
void dropout_add(Stream& stream, const DropoutMask& mask, const TensorView& x,
                 const TensorView& residual, const TensorView& sum);
/// dx = dropout(dy): forward in place of an embedding's output, and backward of both. dx may be dy.
void dropout(Stream& stream, const DropoutMask& mask, const TensorView& dy, const TensorView& dx);

/// Where the elements of a part stand in the whole: runs of `length`, the first at `first`, each
/// `stride` after the one before. Length 0: one run.
struct IndexRuns {
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t stride = 0;

  [[nodiscard]] constexpr std::int64_t index(std::int64_t i) const {
    return length == 0 ? first + i : first + i / length * stride + i % length;
  }
};

/// target[i] = deviation * normal(runs.index(i)).
void fill_normal(Stream& stream, const RandomStream& random, float deviation,
                 const TensorView& target, IndexRuns runs = {});

}  // namespace quadrille::kernels
