// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/linear.h"

#include "model/decode_buffers.h"
#include "quadrille/kernels/projection.h"
#include "quadrille/kernels/reduction.h"

namespace quadrille::internal {

Linear::Linear(std::span<const Parameter> parameters, const std::string& name, bool bias)
    : weight_(parameters, name + ".weight") {
  if (bias) bias_ = ParameterRef(parameters, name + ".bias");
}

kernels::Matmul Linear::product(const TensorView& x, const TensorView& y) const {
  const TensorView weight = weight_.value();  // [out, in]
  return {.a = as_rows(x, weight.shape()[1]),
          .b = weight,
          .c = as_rows(y, weight.shape()[0]),
          .transpose_b = true,
          .bias = bias_.value()};
}

void Linear::forward(const LayerContext& context, const TensorView& x, const TensorView& y) const {
  kernels::Matmul rounded = product(x, y);
  // The outputs of all ranks are summed, so one of them adds the bias.
  if (weight_.is_sharded(1) && context.tensor.index() != 0) rounded.bias = {};
  rounded.rounding = context.rounding;
  rounded.rounded_b = weight_.rounded(context);
  kernels::matmul(*context.stream, rounded);
}

void Linear::decode(const DecodeBuffers& buffers, const TensorView& x, const TensorView& y,
                    bool accumulate) const {
  const TensorView weight = weight_.value();  // [out, in]
  kernels::projection(*buffers.stream, {.x = as_rows(x, weight.shape()[1]),
                                        .weight = buffers.weights->of(weight_.index(), weight),
                                        .bias = bias_.value(),
                                        .y = as_rows(y, weight.shape()[0]),
                                        .accumulate = accumulate,
                                        .scratch = buffers.scratch});
}

Result<void> Linear::add_gradients(LayerContext& context, const TensorView& x,
                                   const TensorView& dy) const {
  const TensorView gradient = weight_.gradient();
  const TensorView dy_rows = as_rows(dy, gradient.shape()[0]);
  kernels::matmul(*context.stream, {.a = dy_rows,
                                    .b = as_rows(x, gradient.shape()[1]),
                                    .c = gradient,
                                    .transpose_a = true,
                                    .bias = {},
                                    .accumulate = !context.first_micro_batch,
                                    .rounding = context.rounding});
  QD_RETURN_IF_ERROR(weight_.contribute(context));
  if (!bias_.exists()) return {};
  kernels::add_column_sums(*context.stream, dy_rows, bias_.gradient());
  return bias_.contribute(context);
}

void Linear::input_gradient(const LayerContext& context, const TensorView& dy, const TensorView& dx,
                            bool accumulate) const {
  const TensorView weight = weight_.value();
  kernels::matmul(*context.stream, {.a = as_rows(dy, weight.shape()[0]),
                                    .b = weight,
                                    .c = as_rows(dx, weight.shape()[1]),
                                    .bias = {},
                                    .accumulate = accumulate,
                                    .rounding = context.rounding,
                                    .rounded_b = weight_.rounded(context)});
}

void Linear::append_order(std::vector<int>& order) const {
  order.push_back(weight_.index());
  if (bias_.exists()) order.push_back(bias_.index());
}

}  // namespace quadrille::internal
