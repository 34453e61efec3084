// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/adamw.h"

#include <array>

#include "kernels/host_pointwise.h"
#include "kernels/operands.h"

namespace quadrille::kernels {

void adamw(Stream& stream, const AdamW& arguments) {
  using internal::require_elements;
  const std::int64_t elements = arguments.parameter.elements();
  require_elements(arguments.parameter, "parameter", DType::kF32, elements);
  require_elements(arguments.gradient, "gradient", DType::kF32, elements);
  require_elements(arguments.first_moment, "first_moment", DType::kF32, elements);
  require_elements(arguments.second_moment, "second_moment", DType::kF32, elements);
  QD_CHECK_MSG(arguments.step >= 1, "optimizer steps count from 1");
  QD_CHECK(arguments.beta1 >= 0 && arguments.beta1 < 1);
  QD_CHECK(arguments.beta2 >= 0 && arguments.beta2 < 1);
  const std::array operands{
      internal::updates(arguments.parameter), internal::reads(arguments.gradient),
      internal::updates(arguments.first_moment), internal::updates(arguments.second_moment)};
  stream.launch("adamw", operands, [arguments] { internal::host_adamw(arguments); });
}

}  // namespace quadrille::kernels
