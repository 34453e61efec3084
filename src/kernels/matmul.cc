// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/matmul.h"

#include <array>
#include <string_view>

#include "kernels/host_matmul.h"
#include "kernels/host_parallel.h"
#include "kernels/host_pointwise.h"
#include "kernels/host_rounding.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

/// An empty sum over K leaves the bias or zero.
void without_terms(const Matmul& arguments, std::int64_t m, std::int64_t n) {
  if (arguments.accumulate) return;
  float* c = arguments.c.host<float>();
  internal::host_fill(c, m * n, 0.0F);
  if (arguments.bias.empty()) return;
  for (std::int64_t row = 0; row < m; ++row) {
    internal::host_add(arguments.bias.host<float>(), c + row * n, n);
  }
}

/// "NT bf16": how A and B lie in memory, and what their products are of.
std::string_view variant_of(const Matmul& arguments) {
  static constexpr std::array<std::array<std::string_view, 4>, 3> kVariants{
      {{"NN", "NT", "TN", "TT"},
       {"NN bf16", "NT bf16", "TN bf16", "TT bf16"},
       {"NN rounded", "NT rounded", "TN rounded", "TT rounded"}}};
  const auto precision = static_cast<std::size_t>(arguments.rounding.precision);
  return kVariants[precision]
                  [(arguments.transpose_a ? 2U : 0U) + (arguments.transpose_b ? 1U : 0U)];
}

}  // namespace

void matmul(Stream& stream, const Matmul& arguments) {
  const Shape& a = internal::shape_of(arguments.a, "a", 2);
  const Shape& b = internal::shape_of(arguments.b, "b", 2);
  const std::int64_t m = a[arguments.transpose_a ? 1 : 0];
  const std::int64_t k = a[arguments.transpose_a ? 0 : 1];
  const std::int64_t n = b[arguments.transpose_b ? 0 : 1];
  internal::require_f32(arguments.a, "a", a);
  internal::require_f32(arguments.b, "b", arguments.transpose_b ? Shape{n, k} : Shape{k, n});
  internal::require_f32(arguments.c, "c", {m, n});
  if (!arguments.bias.empty()) {
    internal::require_f32(arguments.bias, "bias", {n});
    QD_CHECK_MSG(!arguments.accumulate, "a bias and accumulation exclude each other");
  }
  internal::require_rounding(arguments.rounding,
                             rounding_elements(m * k) + rounding_elements(k * n));
  internal::require_rounded(arguments.rounded_b, b, arguments.rounding);
  const std::array operands{
      internal::reads(arguments.a),
      internal::reads(arguments.b),
      internal::reads(arguments.bias),
      internal::writes(arguments.rounding.scratch),
      internal::reads(arguments.rounded_b),
      arguments.accumulate ? internal::updates(arguments.c) : internal::writes(arguments.c)};
  Operation operation("matmul", 2.0 * static_cast<double>(m * n) * static_cast<double>(k));
  operation.extents = {m, n, k};
  operation.variant = variant_of(arguments);
  stream.launch(operation, operands, [arguments, m, n, k] {
    if (m == 0 || n == 0) return;
    if (k == 0) return without_terms(arguments, m, n);
    internal::ProductRounding rounding(arguments.rounding);
    internal::host_matmul(
        {.a = rounding.round(arguments.a.host<float>(), m * k).data,
         .b = rounding.take(arguments.b.host<float>(), arguments.rounded_b.address(), k * n).data,
         .c = arguments.c.host<float>(),
         .bias = arguments.bias.empty() ? nullptr : arguments.bias.host<float>(),
         .m = m,
         .n = n,
         .k = k,
         .transpose_a = arguments.transpose_a,
         .transpose_b = arguments.transpose_b,
         .accumulate = arguments.accumulate,
         .bf16 = rounding.bf16()});
  });
}

ProductPrecision bf16_products() {
  return internal::host_multiplies_bf16() ? ProductPrecision::kBf16
                                          : ProductPrecision::kRoundedFp32;
}

const char* matmul_library() { return internal::host_matmul_library(); }

}  // namespace quadrille::kernels
