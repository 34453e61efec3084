// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Layer norm, or RMS norm where the model's family has it, with its parameters. Backward passes do
// not keep the normed input: they compute it again from x, which costs one pass over a row against
// the products' 72 H^2 FLOPs a token.

#include <span>
#include <string>

#include "model/layer.h"

namespace quadrille::internal {

class Norm {
 public:
  /// One float per row each, kept from forward to backward.
  struct Statistics {
    TensorView mean;  ///< Unused by an RMS norm.
    TensorView rstd;
  };

  /// `<name>.weight` and, where the model has biases, `<name>.bias`.
  Norm(const ModelSpec& spec, std::span<const Parameter> parameters, const std::string& name);

  /// The activations `<site>.mean` and `<site>.rstd` of `layer`.
  [[nodiscard]] Statistics statistics(const LayerContext& context, std::int64_t layer,
                                      const std::string& site) const;

  /// Shapes: x, y [..., H]. Calling it again with the same x repeats the same bits.
  void forward(Stream& stream, const TensorView& x, const TensorView& y,
               const Statistics& statistics) const;

  struct Backward {
    TensorView dy;
    TensorView x;
    Statistics statistics;
    TensorView dx;
    bool accumulate = false;  ///< dx already holds the residual path's gradient.
  };
  /// Also adds to the gradients of weight and bias and reports them, in that order.
  [[nodiscard]] Result<void> backward(LayerContext& context, const Backward& arguments) const;
  void append_order(std::vector<int>& order) const;

 private:
  ParameterRef weight_;
  ParameterRef bias_;
  bool rms_;
  float epsilon_;
};

}  // namespace quadrille::internal
