// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/norm.h"

#include "quadrille/kernels/layer_norm.h"

namespace quadrille::internal {

Norm::Norm(const ModelSpec& spec, std::span<const Parameter> parameters, const std::string& name)
    : weight_(parameters, name + ".weight"), epsilon_(static_cast<float>(spec.norm_epsilon)) {
  if (spec.bias) bias_ = ParameterRef(parameters, name + ".bias");
}

void Norm::forward(Stream& stream, const TensorView& x, const TensorView& y,
                   const Statistics& statistics) const {
  const TensorView weight = weight_.value();
  const std::int64_t hidden = weight.elements();
  kernels::layer_norm_forward(stream, {.x = as_rows(x, hidden),
                                       .weight = weight,
                                       .bias = bias_.value(),
                                       .epsilon = epsilon_,
                                       .y = as_rows(y, hidden),
                                       .mean = statistics.mean.flat(),
                                       .rstd = statistics.rstd.flat()});
}

Result<void> Norm::backward(LayerContext& context, const Backward& arguments) const {
  const TensorView weight = weight_.value();
  const std::int64_t hidden = weight.elements();
  TensorView bias_gradient;
  if (bias_.exists()) bias_gradient = bias_.gradient();
  kernels::layer_norm_backward(*context.stream, {.dy = as_rows(arguments.dy, hidden),
                                                 .x = as_rows(arguments.x, hidden),
                                                 .weight = weight,
                                                 .mean = arguments.statistics.mean.flat(),
                                                 .rstd = arguments.statistics.rstd.flat(),
                                                 .dx = as_rows(arguments.dx, hidden),
                                                 .accumulate_dx = arguments.accumulate,
                                                 .weight_gradient = weight_.gradient(),
                                                 .bias_gradient = bias_gradient});
  QD_RETURN_IF_ERROR(weight_.contribute(context));
  return bias_.contribute(context);
}

void Norm::append_order(std::vector<int>& order) const {
  order.push_back(weight_.index());
  if (bias_.exists()) order.push_back(bias_.index());
}

}  // namespace quadrille::internal
