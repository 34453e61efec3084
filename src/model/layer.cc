// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/layer.h"

#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {

ParameterRef::ParameterRef(std::span<const Parameter> parameters, std::string_view name) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].shape.name != name) continue;
    parameter_ = &parameters[i];
    index_ = static_cast<int>(i);
    return;
  }
  QD_CHECK_MSG(false, "no parameter " + std::string(name));
}

TensorView ParameterRef::value() const {
  if (parameter_ == nullptr) return {};
  QD_CHECK_MSG(!parameter_->value.empty(), "unbound value of " + parameter_->shape.name);
  return used(parameter_->value);
}

TensorView ParameterRef::gradient() const {
  if (parameter_ == nullptr) return {};
  QD_CHECK_MSG(!parameter_->gradient.empty(), "unbound gradient of " + parameter_->shape.name);
  return used(parameter_->gradient);
}

TensorView ParameterRef::used(const TensorView& whole) const {
  const Extent rows = parameter_->used_rows;
  return rows.length == whole.shape()[0] ? whole : whole.rows(rows.first, rows.length);
}

bool ParameterRef::is_sharded(int dimension) const {
  const AxisPlacement tensor = parameter_->shape.placement.on(Axis::kTensor);
  return tensor.is_sharded() && tensor.dimension == dimension;
}

TensorView ParameterRef::rounded(const LayerContext& context) const {
  if (context.rounding.precision == kernels::ProductPrecision::kFp32) return {};
  if (parameter_ == nullptr || parameter_->rounded.empty()) return {};
  return used(parameter_->rounded);
}

Result<void> ParameterRef::contribute(LayerContext& context) const {
  if (parameter_ == nullptr || !context.contributed) return {};
  return context.contributed(index_);
}

std::string site_prefix(std::int64_t layer) { return "h." + std::to_string(layer - 1) + "."; }

TensorView as_rows(const TensorView& view, std::int64_t columns) {
  return view.reshape({view.elements() / columns, columns});
}

Result<TensorView> whole_rows(const LayerContext& context, const TensorView& x, std::int64_t width,
                              const std::function<TensorView()>& scratch) {
  if (!context.tensor.shares_rows()) return x;
  const TensorView whole = scratch();
  kernels::copy(*context.stream, x, context.tensor.own_rows(whole, width));
  QD_RETURN_IF_ERROR(context.tensor.gather_rows(*context.stream, whole, width));
  return whole;
}

TensorView front_of(const TensorView& scratch, const Shape& shape) {
  return scratch.flat(0, shape.elements()).reshape(shape);
}

}  // namespace quadrille::internal
