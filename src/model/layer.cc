// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/layer.h"

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
  return parameter_->value;
}

TensorView ParameterRef::gradient() const {
  if (parameter_ == nullptr) return {};
  QD_CHECK_MSG(!parameter_->gradient.empty(), "unbound gradient of " + parameter_->shape.name);
  return parameter_->gradient;
}

Result<void> ParameterRef::contribute(LayerContext& context) const {
  if (parameter_ == nullptr || !context.contributed) return {};
  return context.contributed(index_);
}

std::string site_prefix(std::int64_t layer) { return "h." + std::to_string(layer - 1) + "."; }

TensorView as_rows(const TensorView& view, std::int64_t columns) {
  return view.reshape({view.elements() / columns, columns});
}

TensorView front_of(const TensorView& scratch, const Shape& shape) {
  return scratch.flat(0, shape.elements()).reshape(shape);
}

}  // namespace quadrille::internal
