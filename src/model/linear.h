// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// y = x W^T + b with W [out, in], and its gradients.

#include <span>
#include <string>

#include "model/layer.h"

namespace quadrille::internal {

class Linear {
 public:
  /// `<name>.weight` and, with `bias`, `<name>.bias`.
  Linear(std::span<const Parameter> parameters, const std::string& name, bool bias);

  /// Shapes: x [..., in], y [..., out].
  void forward(Stream& stream, const TensorView& x, const TensorView& y) const;
  /// Adds to the gradients of weight and bias and reports them, in that order.
  [[nodiscard]] Result<void> add_gradients(LayerContext& context, const TensorView& x,
                                           const TensorView& dy) const;
  /// dx = dy W, overwritten.
  void input_gradient(Stream& stream, const TensorView& dy, const TensorView& dx) const;
  void append_order(std::vector<int>& order) const;

 private:
  ParameterRef weight_;
  ParameterRef bias_;
};

}  // namespace quadrille::internal
