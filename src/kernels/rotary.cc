// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/rotary.h"

#include <array>

#include "kernels/host_rotary.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

void check_heads(const TensorView& heads, const char* name, const Shape& rows, std::int64_t width) {
  const Shape& shape = internal::shape_of(heads, name, 3);
  internal::require_f32(heads, name, {rows[0], rows[1], shape[2]});
  QD_CHECK_MSG(shape[2] % width == 0, std::string(name) + " is not a whole number of heads");
}

}  // namespace

void rotary(Stream& stream, const Rotary& arguments) {
  const auto width = static_cast<std::int64_t>(2 * arguments.frequencies.size());
  QD_CHECK(width > 0);
  QD_CHECK(arguments.first_position >= 0);
  const Shape& rows = internal::shape_of(arguments.queries, "queries", 3);
  check_heads(arguments.queries, "queries", rows, width);
  check_heads(arguments.keys, "keys", rows, width);
  const std::array operands{internal::updates(arguments.queries),
                            internal::updates(arguments.keys)};
  stream.launch("rotary", operands, [arguments] { internal::host_rotary(arguments); });
}

}  // namespace quadrille::kernels
