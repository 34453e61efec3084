// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/projection.h"

#include <algorithm>
#include <array>

#include "kernels/host_few_rows.h"
#include "kernels/host_matmul.h"
#include "kernels/host_pointwise.h"
#include "kernels/host_rounding.h"
#include "kernels/operands.h"
#include "quadrille/kernels/rounding.h"

namespace quadrille::kernels {
namespace {

struct Extents {
  std::int64_t rows = 0;     // M
  std::int64_t outputs = 0;  // N
  std::int64_t inputs = 0;   // K
};

bool is_bf16(const Projection& p) { return p.weight.dtype() == DType::kU8; }

const std::uint16_t* halves(const TensorView& bf16) {
  return reinterpret_cast<const std::uint16_t*>(bf16.host<std::uint8_t>());
}

void few_rows(const Projection& p, const Extents& e) {
  internal::host_few_rows({.x = p.x.host<float>(),
                           .weight = is_bf16(p) ? nullptr : p.weight.host<float>(),
                           .weight_bf16 = is_bf16(p) ? halves(p.weight) : nullptr,
                           .bias = p.bias.empty() ? nullptr : p.bias.host<float>(),
                           .y = p.y.host<float>(),
                           .rows = e.rows,
                           .n = e.outputs,
                           .k = e.inputs,
                           .accumulate = p.accumulate});
}

/// matmul's factors: as they are, or bf16, or what bf16 holds as fp32 where the host does not
/// multiply bf16.
void many_rows(const Projection& p, const Extents& e) {
  internal::HostMatmul product{.a = p.x.host<float>(),
                               .b = p.weight.address(),
                               .c = p.y.host<float>(),
                               .bias = p.bias.empty() ? nullptr : p.bias.host<float>(),
                               .m = e.rows,
                               .n = e.outputs,
                               .k = e.inputs,
                               .transpose_b = true,
                               .accumulate = p.accumulate};
  if (p.accumulate && product.bias != nullptr) {
    for (std::int64_t row = 0; row < e.rows; ++row) {
      internal::host_add(product.bias, product.c + row * e.outputs, e.outputs);
    }
    product.bias = nullptr;
  }
  if (is_bf16(p)) {
    product.bf16 = internal::host_multiplies_bf16();
    float* scratch = p.scratch.host<float>();
    if (product.bf16) {
      auto* rounded = reinterpret_cast<std::uint16_t*>(scratch);
      internal::host_round_to_bf16(p.x.host<float>(), rounded, e.rows * e.inputs);
    } else {
      internal::host_round_as_fp32(p.x.host<float>(), scratch, e.rows * e.inputs);
      float* wide = scratch + rounding_elements(e.rows * e.inputs);
      internal::host_bf16_to_fp32(halves(p.weight), wide, e.outputs * e.inputs);
      product.b = wide;
    }
    product.a = scratch;
  }
  internal::host_matmul(product);
}

}  // namespace

std::int64_t projection_scratch(std::int64_t rows, std::int64_t outputs, std::int64_t inputs) {
  if (rows <= kFewRows) return 0;
  const std::int64_t rounded = rounding_elements(rows * inputs);
  if (bf16_products() == ProductPrecision::kBf16) return rounded;
  return rounded + rounding_elements(outputs * inputs);
}

void projection(Stream& stream, const Projection& arguments) {
  const Shape& x = internal::shape_of(arguments.x, "x", 2);
  const Shape& weight = internal::shape_of(arguments.weight, "weight", 2);
  const Extents e{.rows = x[0], .outputs = weight[0], .inputs = x[1]};
  internal::require_f32(arguments.x, "x", x);
  if (is_bf16(arguments)) {
    internal::require(arguments.weight, "weight", DType::kU8, {e.outputs, 2 * e.inputs});
    QD_CHECK(arguments.scratch.elements() >= projection_scratch(e.rows, e.outputs, e.inputs) ||
             e.rows <= kFewRows);
  } else {
    internal::require_f32(arguments.weight, "weight", {e.outputs, e.inputs});
  }
  if (!arguments.bias.empty()) internal::require_f32(arguments.bias, "bias", {e.outputs});
  internal::require_f32(arguments.y, "y", {e.rows, e.outputs});
  const std::array operands{
      internal::reads(arguments.x), internal::reads(arguments.weight),
      internal::reads(arguments.bias), internal::writes(arguments.scratch),
      arguments.accumulate ? internal::updates(arguments.y) : internal::writes(arguments.y)};
  Operation operation(
      "projection", 2.0 * static_cast<double>(e.rows * e.outputs) * static_cast<double>(e.inputs));
  operation.extents = {e.rows, e.outputs, e.inputs};
  operation.variant = is_bf16(arguments) ? "NT bf16" : "NT";
  stream.launch(operation, operands, [arguments, e] {
    if (e.rows == 0 || e.outputs == 0) return;
    if (e.rows <= kFewRows || e.inputs == 0) return few_rows(arguments, e);
    many_rows(arguments, e);
  });
}

void to_bf16(Stream& stream, const TensorView& source, const TensorView& target) {
  const Shape& shape = internal::shape_of(source, "source", 2);
  internal::require_f32(source, "source", shape);
  internal::require(target, "target", DType::kU8, {shape[0], 2 * shape[1]});
  const std::array operands{internal::reads(source), internal::writes(target)};
  stream.launch("to_bf16", operands, [source, target] {
    internal::host_round_to_bf16(source.host<float>(),
                                 reinterpret_cast<std::uint16_t*>(target.host<std::uint8_t>()),
                                 source.elements());
  });
}

}  // namespace quadrille::kernels
