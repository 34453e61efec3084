// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/device/tensor_view.h"

#include <cstddef>

namespace quadrille {

std::string Shape::to_text() const {
  std::string text = "[";
  for (int i = 0; i < dimensions_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(extents_[static_cast<std::size_t>(i)]);
  }
  return text + "]";
}

TensorView TensorView::reshape(Shape shape) const {
  QD_CHECK_MSG(shape.elements() == elements(), shape_.to_text() + " to " + shape.to_text());
  return TensorView(device_, data_, dtype_, shape);
}

TensorView TensorView::rows(std::int64_t first, std::int64_t count) const {
  QD_CHECK(shape_.dimensions() >= 1);
  const std::int64_t extent = shape_[0];
  QD_CHECK(first >= 0 && count >= 0);
  QD_CHECK(first <= extent && count <= extent - first);
  const std::int64_t row = extent == 0 ? 0 : elements() / extent;
  Shape shape = shape_.with_extent(0, count);
  auto* start = static_cast<std::byte*>(data_) + first * row * element_bytes(dtype_);
  return TensorView(device_, data_ == nullptr ? nullptr : start, dtype_, shape);
}

TensorView TensorView::flat(std::int64_t first, std::int64_t count) const {
  return reshape({elements()}).rows(first, count);
}

}  // namespace quadrille
