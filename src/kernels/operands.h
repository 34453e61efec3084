// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every operation does before it launches: say which views it reads and writes, and refuse
// views whose type or shape is not the documented one. A mismatch is a bug of the caller.

#include <string>

#include "quadrille/base/check.h"
#include "quadrille/device/device.h"

namespace quadrille::internal {

inline Operand reads(const TensorView& view) { return {view, Access::kRead}; }
inline Operand writes(const TensorView& view) { return {view, Access::kWrite}; }
inline Operand updates(const TensorView& view) { return {view, Access::kReadWrite}; }

inline std::string mismatch_text(const TensorView& view, const char* name, const Shape& expected) {
  return std::string(name) + " is " + std::string(kDTypeText.text(view.dtype())) + " " +
         view.shape().to_text() + ", expected " + expected.to_text();
}

/// `name` must be dense `dtype` of exactly `shape`.
inline void require(const TensorView& view, const char* name, DType dtype, const Shape& shape) {
  const bool fits = view.dtype() == dtype && view.shape() == shape;
  QD_CHECK_MSG(fits, mismatch_text(view, name, shape));
  QD_CHECK_MSG(view.address() != nullptr || view.elements() == 0, std::string(name) + " is empty");
}
inline void require_f32(const TensorView& view, const char* name, const Shape& shape) {
  require(view, name, DType::kF32, shape);
}

/// `name` must be `dtype` of `elements` elements, however they are arranged.
inline void require_elements(const TensorView& view, const char* name, DType dtype,
                             std::int64_t elements) {
  const bool fits = view.dtype() == dtype && view.elements() == elements;
  QD_CHECK_MSG(fits, mismatch_text(view, name, Shape{elements}));
  QD_CHECK_MSG(view.address() != nullptr || elements == 0, std::string(name) + " is empty");
}

/// Extents of a view that must have `dimensions` of them.
inline const Shape& shape_of(const TensorView& view, const char* name, int dimensions) {
  QD_CHECK_MSG(view.shape().dimensions() == dimensions,
               std::string(name) + " has shape " + view.shape().to_text());
  return view.shape();
}

}  // namespace quadrille::internal
