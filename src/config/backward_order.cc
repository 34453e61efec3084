// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

/// "h.0.attn.c_attn" of "h.0.attn.c_attn.bias".
std::string_view module_of(const ParameterShape& parameter) {
  return std::string_view(parameter.name).substr(0, parameter.name.rfind('.'));
}

}  // namespace

// Parameters stand in the order in which forward uses their modules. The embedding's all complete
// at once, at the end.
std::vector<int> backward_order(const ModelSpec& model) {
  const std::vector<ParameterShape> shapes = parameter_shapes(model);
  std::vector<int> order;
  const auto at = [&shapes](std::size_t i) { return module_of(shapes[i]); };
  std::size_t end = shapes.size();
  while (end > 0) {
    std::size_t first = end - 1;
    const bool embedding = shapes[first].layer == 0;
    while (first > 0 && (embedding || at(first - 1) == at(end - 1))) --first;
    for (std::size_t i = first; i < end; ++i) order.push_back(static_cast<int>(i));
    end = first;
  }
  return order;
}

std::vector<std::vector<int>> parameters_of_layers(const ModelSpec& model) {
  std::vector<std::vector<int>> layers(static_cast<std::size_t>(layer_count(model)));
  const std::vector<ParameterShape> shapes = parameter_shapes(model);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    layers[static_cast<std::size_t>(shapes[i].layer)].push_back(static_cast<int>(i));
    if (gradient_contributions(model, shapes[i]) > 1) layers.back().push_back(static_cast<int>(i));
  }
  return layers;
}

int gradient_contributions(const ModelSpec& model, const ParameterShape& parameter) {
  // Of the embedding's parameters only a tied one is a product's factor.
  return model.tie_embeddings && parameter.layer == 0 && parameter.in_product ? 2 : 1;
}

}  // namespace quadrille
