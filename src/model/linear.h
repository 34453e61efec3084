// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// y = x W^T + b with W [out, in], and its gradients. Where ranks share the weight's rows (a column
// linear), y is this rank's columns and dx its part of a sum; where they share its columns (a row
// linear), x is this rank's columns and y its part of a sum. Whoever uses a part sums it
// (TensorGroup).

#include <span>
#include <string>

#include "model/layer.h"
#include "quadrille/kernels/matmul.h"

namespace quadrille::internal {

struct DecodeBuffers;

class Linear {
 public:
  /// `<name>.weight` and, with `bias`, `<name>.bias`.
  Linear(std::span<const Parameter> parameters, const std::string& name, bool bias);

  /// Shapes: x [..., in], y [..., out].
  void forward(const LayerContext& context, const TensorView& x, const TensorView& y) const;
  /// y = or += the same outside training, with the weights that decoding has.
  void decode(const DecodeBuffers& buffers, const TensorView& x, const TensorView& y,
              bool accumulate = false) const;
  /// Adds to the gradients of weight (which the first micro-batch overwrites) and bias and reports
  /// them, in that order.
  [[nodiscard]] Result<void> add_gradients(LayerContext& context, const TensorView& x,
                                           const TensorView& dy) const;
  /// dx = dy W, or dx += dy W.
  void input_gradient(const LayerContext& context, const TensorView& dy, const TensorView& dx,
                      bool accumulate = false) const;
  void append_order(std::vector<int>& order) const;
  [[nodiscard]] std::int64_t inputs() const { return weight_.value().shape()[1]; }

 private:
  [[nodiscard]] kernels::Matmul product(const TensorView& x, const TensorView& y) const;

  ParameterRef weight_;
  ParameterRef bias_;
};

}  // namespace quadrille::internal
