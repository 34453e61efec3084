// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/linear.h"

#include "quadrille/kernels/matmul.h"
#include "quadrille/kernels/reduction.h"

namespace quadrille::internal {

Linear::Linear(std::span<const Parameter> parameters, const std::string& name, bool bias)
    : weight_(parameters, name + ".weight") {
  if (bias) bias_ = ParameterRef(parameters, name + ".bias");
}

void Linear::forward(Stream& stream, const TensorView& x, const TensorView& y) const {
  const TensorView weight = weight_.value();  // [out, in]
  kernels::matmul(stream, {.a = as_rows(x, weight.shape()[1]),
                           .b = weight,
                           .c = as_rows(y, weight.shape()[0]),
                           .transpose_b = true,
                           .bias = bias_.value()});
}

Result<void> Linear::add_gradients(LayerContext& context, const TensorView& x,
                                   const TensorView& dy) const {
  const TensorView gradient = weight_.gradient();
  const TensorView dy_rows = as_rows(dy, gradient.shape()[0]);
  kernels::matmul(*context.stream, {.a = dy_rows,
                                    .b = as_rows(x, gradient.shape()[1]),
                                    .c = gradient,
                                    .transpose_a = true,
                                    .accumulate = true});
  QD_RETURN_IF_ERROR(weight_.contribute(context));
  if (!bias_.exists()) return {};
  kernels::add_column_sums(*context.stream, dy_rows, bias_.gradient());
  return bias_.contribute(context);
}

void Linear::input_gradient(Stream& stream, const TensorView& dy, const TensorView& dx) const {
  const TensorView weight = weight_.value();
  kernels::matmul(
      stream,
      {.a = as_rows(dy, weight.shape()[0]), .b = weight, .c = as_rows(dx, weight.shape()[1])});
}

void Linear::append_order(std::vector<int>& order) const {
  order.push_back(weight_.index());
  if (bias_.exists()) order.push_back(bias_.index());
}

}  // namespace quadrille::internal
