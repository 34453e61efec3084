// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/swiglu.h"

#include <array>

#include "kernels/host_swiglu.h"
#include "kernels/operands.h"

namespace quadrille::kernels {

using internal::reads;
using internal::require_elements;
using internal::writes;

void swiglu_forward(Stream& stream, const TensorView& gate, const TensorView& up,
                    const TensorView& y) {
  require_elements(gate, "gate", DType::kF32, gate.elements());
  require_elements(up, "up", DType::kF32, gate.elements());
  require_elements(y, "y", DType::kF32, gate.elements());
  stream.launch("swiglu_forward", std::array{reads(gate), reads(up), writes(y)}, [gate, up, y] {
    internal::host_swiglu_forward({.gate = gate.host<float>(),
                                   .up = up.host<float>(),
                                   .y = y.host<float>(),
                                   .count = gate.elements()});
  });
}

void swiglu_backward(Stream& stream, const SwigluBackward& arguments) {
  const std::int64_t count = arguments.gate.elements();
  require_elements(arguments.gate, "gate", DType::kF32, count);
  require_elements(arguments.up, "up", DType::kF32, count);
  require_elements(arguments.dy, "dy", DType::kF32, count);
  require_elements(arguments.dgate, "dgate", DType::kF32, count);
  require_elements(arguments.dup, "dup", DType::kF32, count);
  const std::array operands{reads(arguments.gate), reads(arguments.up), reads(arguments.dy),
                            writes(arguments.dgate), writes(arguments.dup)};
  stream.launch("swiglu_backward", operands, [arguments, count] {
    internal::host_swiglu_backward({.gate = arguments.gate.host<float>(),
                                    .up = arguments.up.host<float>(),
                                    .dy = arguments.dy.host<float>(),
                                    .dgate = arguments.dgate.host<float>(),
                                    .dup = arguments.dup.host<float>(),
                                    .count = count});
  });
}

}  // namespace quadrille::kernels
