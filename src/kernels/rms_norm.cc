// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/rms_norm.h"

#include <array>

#include "kernels/host_rms_norm.h"
#include "kernels/operands.h"

namespace quadrille::kernels {

void rms_norm_forward(Stream& stream, const RmsNormForward& arguments) {
  const Shape& shape = internal::shape_of(arguments.x, "x", 2);
  internal::require_f32(arguments.x, "x", shape);
  internal::require_f32(arguments.y, "y", shape);
  internal::require_f32(arguments.weight, "weight", {shape[1]});
  internal::require_f32(arguments.rstd, "rstd", {shape[0]});
  const std::array operands{internal::reads(arguments.x), internal::reads(arguments.weight),
                            internal::writes(arguments.y), internal::writes(arguments.rstd)};
  stream.launch("rms_norm_forward", operands,
                [arguments] { internal::host_rms_norm_forward(arguments); });
}

void rms_norm_backward(Stream& stream, const RmsNormBackward& arguments) {
  const Shape& shape = internal::shape_of(arguments.x, "x", 2);
  internal::require_f32(arguments.x, "x", shape);
  internal::require_f32(arguments.dy, "dy", shape);
  internal::require_f32(arguments.dx, "dx", shape);
  internal::require_f32(arguments.weight, "weight", {shape[1]});
  internal::require_f32(arguments.rstd, "rstd", {shape[0]});
  internal::require_f32(arguments.weight_gradient, "weight_gradient", {shape[1]});
  const std::array operands{
      internal::reads(arguments.dy),
      internal::reads(arguments.x),
      internal::reads(arguments.weight),
      internal::reads(arguments.rstd),
      arguments.accumulate_dx ? internal::updates(arguments.dx) : internal::writes(arguments.dx),
      internal::updates(arguments.weight_gradient)};
  stream.launch("rms_norm_backward", operands,
                [arguments] { internal::host_rms_norm_backward(arguments); });
}

}  // namespace quadrille::kernels
