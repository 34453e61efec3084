// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A dense row-major tensor somewhere on a device. A view owns nothing: the Lease it came from must
// outlive it. Only the body of an operation (Stream::launch) may touch the memory behind it.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "quadrille/base/check.h"
#include "quadrille/base/enum_text.h"
#include "quadrille/base/units.h"

namespace quadrille {

class Device;

enum class DType : std::uint8_t { kF32, kF64, kI32, kU8, kBF16 };
inline constexpr EnumTable<DType, 5> kDTypeText{{{{DType::kF32, "F32"},
                                                  {DType::kF64, "F64"},
                                                  {DType::kI32, "I32"},
                                                  {DType::kU8, "U8"},
                                                  {DType::kBF16, "BF16"}}}};
[[nodiscard]] constexpr std::int64_t element_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kF64:
      return 8;
    case DType::kI32:
      return 4;
    case DType::kU8:
      return 1;
    case DType::kBF16:
      return 2;
  }
  return 0;
}

/// Up to four dimensions, each at least 0.
class Shape {
 public:
  static constexpr int kMostDimensions = 4;
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> extents) {  // NOLINT: {B, T, H} reads well
    QD_CHECK(extents.size() <= kMostDimensions);
    for (const std::int64_t extent : extents) {
      QD_CHECK(extent >= 0);
      extents_[static_cast<std::size_t>(dimensions_++)] = extent;
    }
  }
  [[nodiscard]] constexpr int dimensions() const { return dimensions_; }
  [[nodiscard]] constexpr std::int64_t operator[](int dimension) const {
    QD_CHECK(dimension >= 0 && dimension < dimensions_);
    return extents_[static_cast<std::size_t>(dimension)];
  }
  [[nodiscard]] constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < dimensions_; ++i) {
      QD_CHECK(!__builtin_mul_overflow(product, extents_[static_cast<std::size_t>(i)], &product));
    }
    return product;
  }
  /// The same shape with another extent on one dimension.
  [[nodiscard]] constexpr Shape with_extent(int dimension, std::int64_t extent) const {
    QD_CHECK(dimension >= 0 && dimension < dimensions_);
    QD_CHECK(extent >= 0);
    Shape shape = *this;
    shape.extents_[static_cast<std::size_t>(dimension)] = extent;
    return shape;
  }
  /// "[2, 64, 128]".
  [[nodiscard]] std::string to_text() const;
  friend constexpr bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMostDimensions> extents_{};
  int dimensions_ = 0;
};

/// The bits of a bf16 number: the upper half of the fp32 number of the same value.
struct BFloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(const BFloat16&, const BFloat16&) = default;
};

template <class T>
[[nodiscard]] constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::kBF16;
}

class TensorView {
 public:
  TensorView() = default;
  TensorView(Device* device, void* data, DType dtype, Shape shape)
      : device_(device), data_(data), dtype_(dtype), shape_(shape) {}

  [[nodiscard]] bool empty() const { return data_ == nullptr || elements() == 0; }
  [[nodiscard]] Device* device() const { return device_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t elements() const { return shape_.elements(); }
  [[nodiscard]] Bytes bytes() const { return Bytes(elements() * element_bytes(dtype_)); }
  /// The device address, opaque outside an operation's body.
  [[nodiscard]] void* address() const { return data_; }

  /// For the body of a host operation only; the dtype must match.
  template <class T>
  [[nodiscard]] T* host() const {
    QD_CHECK(dtype_ == dtype_of<T>());
    return static_cast<T*>(data_);
  }

  /// The same bytes with other extents; the number of elements must match.
  [[nodiscard]] TensorView reshape(Shape shape) const;
  /// Rows [first, first + count) of the outermost dimension.
  [[nodiscard]] TensorView rows(std::int64_t first, std::int64_t count) const;
  /// Elements [first, first + count) of the flattened tensor, as a vector.
  [[nodiscard]] TensorView flat(std::int64_t first, std::int64_t count) const;
  [[nodiscard]] TensorView flat() const { return flat(0, elements()); }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  Shape shape_;
};

}  // namespace quadrille
