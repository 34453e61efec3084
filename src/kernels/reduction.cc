// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/reduction.h"

#include <array>
#include <vector>

#include "kernels/host_reduction.h"
#include "kernels/operands.h"

namespace quadrille::kernels {

void add_column_sums(Stream& stream, const TensorView& dy, const TensorView& gradient) {
  const Shape& shape = internal::shape_of(dy, "dy", 2);
  internal::require_f32(dy, "dy", shape);
  internal::require_f32(gradient, "gradient", {shape[1]});
  stream.launch("add_column_sums", std::array{internal::reads(dy), internal::updates(gradient)},
                [dy, gradient] {
                  internal::host_add_column_sums(dy.host<float>(), dy.shape()[0], dy.shape()[1],
                                                 gradient.host<float>());
                });
}

void add_sum_of_squares(Stream& stream, const TensorView& x, const TensorView& result) {
  internal::require_elements(x, "x", DType::kF32, x.elements());
  internal::require_elements(result, "result", DType::kF64, 1);
  stream.launch(
      "add_sum_of_squares", std::array{internal::reads(x), internal::updates(result)}, [x, result] {
        result.host<double>()[0] += internal::host_sum_of_squares(x.host<float>(), x.elements());
      });
}

void sum_in_order(Stream& stream, std::span<const TensorView> sources, const TensorView& target) {
  QD_CHECK_MSG(!sources.empty(), "a sum in order needs a source");
  internal::require_elements(target, "target", DType::kF32, target.elements());
  std::vector<Operand> operands{internal::writes(target)};
  std::vector<const float*> addresses;
  for (const TensorView& source : sources) {
    internal::require_elements(source, "source", DType::kF32, target.elements());
    operands.push_back(internal::reads(source));
    addresses.push_back(source.host<float>());
  }
  stream.launch("sum_in_order", operands, [addresses = std::move(addresses), target] {
    internal::host_sum_in_order(addresses, target.host<float>(), target.elements());
  });
}

void add_count_of_nonfinite(Stream& stream, const TensorView& x, const TensorView& result) {
  internal::require_elements(x, "x", DType::kF32, x.elements());
  internal::require_elements(result, "result", DType::kF64, 1);
  stream.launch("add_count_of_nonfinite", std::array{internal::reads(x), internal::updates(result)},
                [x, result] {
                  result.host<double>()[0] += static_cast<double>(
                      internal::host_count_nonfinite(x.host<float>(), x.elements()));
                });
}

}  // namespace quadrille::kernels
