// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/norm.h"

#include "quadrille/kernels/layer_norm.h"
#include "quadrille/kernels/rms_norm.h"

namespace quadrille::internal {

Norm::Norm(const ModelSpec& spec, std::span<const Parameter> parameters, const std::string& name)
    : weight_(parameters, name + ".weight"),
      rms_(spec.has_rms_norm()),
      epsilon_(static_cast<float>(spec.norm_epsilon)) {
  if (spec.bias) bias_ = ParameterRef(parameters, name + ".bias");
}

Norm::Statistics Norm::statistics(const LayerContext& context, std::int64_t layer,
                                  const std::string& site) const {
  return {.mean = rms_ ? TensorView() : context.activation(layer, site + ".mean"),
          .rstd = context.activation(layer, site + ".rstd")};
}

void Norm::forward(Stream& stream, const TensorView& x, const TensorView& y,
                   const Statistics& statistics) const {
  const TensorView weight = weight_.value();
  const std::int64_t hidden = weight.elements();
  if (rms_) {
    return kernels::rms_norm_forward(stream, {.x = as_rows(x, hidden),
                                              .weight = weight,
                                              .epsilon = epsilon_,
                                              .y = as_rows(y, hidden),
                                              .rstd = statistics.rstd.flat()});
  }
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
  if (rms_) {
    kernels::rms_norm_backward(*context.stream, {.dy = as_rows(arguments.dy, hidden),
                                                 .x = as_rows(arguments.x, hidden),
                                                 .weight = weight,
                                                 .rstd = arguments.statistics.rstd.flat(),
                                                 .dx = as_rows(arguments.dx, hidden),
                                                 .accumulate_dx = arguments.accumulate,
                                                 .weight_gradient = weight_.gradient()});
    return weight_.contribute(context);
  }
  kernels::layer_norm_backward(*context.stream, {.dy = as_rows(arguments.dy, hidden),
                                                 .x = as_rows(arguments.x, hidden),
                                                 .weight = weight,
                                                 .mean = arguments.statistics.mean.flat(),
                                                 .rstd = arguments.statistics.rstd.flat(),
                                                 .dx = as_rows(arguments.dx, hidden),
                                                 .accumulate_dx = arguments.accumulate,
                                                 .weight_gradient = weight_.gradient(),
                                                 .bias_gradient = bias_.gradient()});
  QD_RETURN_IF_ERROR(weight_.contribute(context));
  return bias_.contribute(context);
}

void Norm::append_order(std::vector<int>& order) const {
  order.push_back(weight_.index());
  if (bias_.exists()) order.push_back(bias_.index());
}

}  // namespace quadrille::internal
