// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/pointwise.h"

#include <array>
#include <cstring>

#include "kernels/host_parallel.h"
#include "kernels/host_pointwise.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

using internal::reads;
using internal::require_elements;
using internal::updates;
using internal::writes;

void check_mask(const DropoutMask& mask) {
  QD_CHECK_MSG(mask.probability >= 0, "a dropout probability is negative");
  QD_CHECK_MSG(mask.probability < 1, "a dropout probability of 1 keeps nothing");
}

void copy_bytes(const std::byte* source, std::byte* target, std::int64_t count) {
  constexpr std::int64_t kBlock = 256 << 10;
  internal::parallel_blocks(count, kBlock, [=](std::int64_t first, std::int64_t size) {
    std::memcpy(target + first, source + first, static_cast<std::size_t>(size));
  });
}

}  // namespace

void fill(Stream& stream, const TensorView& target, float value) {
  require_elements(target, "target", DType::kF32, target.elements());
  stream.launch("fill", std::array{writes(target)}, [target, value] {
    internal::host_fill(target.host<float>(), target.elements(), value);
  });
}

void copy(Stream& stream, const TensorView& source, const TensorView& target) {
  require_elements(target, "target", source.dtype(), source.elements());
  stream.launch("copy", std::array{reads(source), writes(target)}, [source, target] {
    if (source.address() == target.address()) return;
    copy_bytes(static_cast<const std::byte*>(source.address()),
               static_cast<std::byte*>(target.address()), source.bytes().count());
  });
}

void add(Stream& stream, const TensorView& source, const TensorView& target) {
  require_elements(source, "source", DType::kF32, target.elements());
  require_elements(target, "target", DType::kF32, target.elements());
  stream.launch("add", std::array{reads(source), updates(target)}, [source, target] {
    internal::host_add(source.host<float>(), target.host<float>(), target.elements());
  });
}

void scale(Stream& stream, const TensorView& target, float factor) {
  require_elements(target, "target", DType::kF32, target.elements());
  stream.launch("scale", std::array{updates(target)}, [target, factor] {
    internal::host_scale(target.host<float>(), target.elements(), factor);
  });
}

void gelu_forward(Stream& stream, const TensorView& x, const TensorView& y) {
  require_elements(x, "x", DType::kF32, x.elements());
  require_elements(y, "y", DType::kF32, x.elements());
  stream.launch("gelu_forward", std::array{reads(x), writes(y)}, [x, y] {
    internal::host_gelu_forward(x.host<float>(), y.host<float>(), x.elements());
  });
}

void gelu_backward(Stream& stream, const TensorView& x, const TensorView& dy,
                   const TensorView& dx) {
  require_elements(x, "x", DType::kF32, x.elements());
  require_elements(dy, "dy", DType::kF32, x.elements());
  require_elements(dx, "dx", DType::kF32, x.elements());
  stream.launch("gelu_backward", std::array{reads(x), reads(dy), writes(dx)}, [x, dy, dx] {
    internal::host_gelu_backward(x.host<float>(), dy.host<float>(), dx.host<float>(), x.elements());
  });
}

void dropout_add(Stream& stream, const DropoutMask& mask, const TensorView& x,
                 const TensorView& residual, const TensorView& sum) {
  check_mask(mask);
  require_elements(x, "x", DType::kF32, x.elements());
  require_elements(residual, "residual", DType::kF32, x.elements());
  require_elements(sum, "sum", DType::kF32, x.elements());
  stream.launch("dropout_add", std::array{reads(x), reads(residual), writes(sum)},
                [mask, x, residual, sum] {
                  internal::host_dropout({.mask = mask,
                                          .x = x.host<float>(),
                                          .residual = residual.host<float>(),
                                          .out = sum.host<float>(),
                                          .count = x.elements()});
                });
}

void dropout(Stream& stream, const DropoutMask& mask, const TensorView& dy, const TensorView& dx) {
  check_mask(mask);
  require_elements(dy, "dy", DType::kF32, dy.elements());
  require_elements(dx, "dx", DType::kF32, dy.elements());
  stream.launch("dropout", std::array{reads(dy), writes(dx)}, [mask, dy, dx] {
    internal::host_dropout({.mask = mask,
                            .x = dy.host<float>(),
                            .residual = nullptr,
                            .out = dx.host<float>(),
                            .count = dy.elements()});
  });
}

void fill_normal(Stream& stream, const RandomStream& random, float deviation,
                 const TensorView& target, IndexRuns runs) {
  require_elements(target, "target", DType::kF32, target.elements());
  stream.launch("fill_normal", std::array{writes(target)}, [random, deviation, target, runs] {
    internal::host_fill_normal({.random = random,
                                .deviation = deviation,
                                .target = target.host<float>(),
                                .count = target.elements(),
                                .runs = runs});
  });
}

}  // namespace quadrille::kernels
