// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/activations.h"

#include <algorithm>
#include <utility>

namespace quadrille::internal {
namespace {

Shape shape_of(const std::vector<std::int64_t>& extents) {
  switch (extents.size()) {
    case 1:
      return {extents[0]};
    case 2:
      return {extents[0], extents[1]};
    case 3:
      return {extents[0], extents[1], extents[2]};
    case 4:
      return {extents[0], extents[1], extents[2], extents[3]};
    default:
      QD_CHECK_MSG(false, "an activation has one to four dimensions");
  }
  return {};
}

}  // namespace

Activations::Activations(const ActivationArena& arena, Lease lease) : lease_(std::move(lease)) {
  QD_CHECK(lease_.bytes() >= arena.layout.total);
  for (std::size_t i = 0; i < arena.shapes.size(); ++i) {
    const ActivationShape& activation = arena.shapes[i];
    const auto layer = static_cast<std::size_t>(activation.layer);
    if (by_layer_.size() <= layer) by_layer_.resize(layer + 1);
    const DType dtype = activation.element_bytes == 8 ? DType::kF64 : DType::kF32;
    by_layer_[layer].push_back(
        {activation.name,
         lease_.view_at(arena.layout.offsets[i], dtype, shape_of(activation.shape)),
         activation.life});
  }
}

TensorView Activations::view(std::int64_t layer, std::string_view name) const {
  const auto& views = by_layer_[static_cast<std::size_t>(layer)];
  const auto found = std::find_if(views.begin(), views.end(),
                                  [name](const auto& row) { return row.name == name; });
  QD_CHECK_MSG(found != views.end(), name);
  return found->view;
}

}  // namespace quadrille::internal
