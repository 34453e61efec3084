// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/head_loss.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/host_cross_entropy.h"
#include "kernels/host_matmul.h"
#include "kernels/host_rounding.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

constexpr std::int64_t kChunkElements = (4 << 20) / 4;
// Each chunk reads the weight twice and adds to all of its gradient. With a GPT-2's 50257 columns,
// chunks of 20 rows take twice as long as chunks of 256, and 64 still a quarter longer; more than
// 256 gain nothing.
constexpr std::int64_t kLeastChunkRows = 256;

struct Extents {
  std::int64_t rows;   // N
  std::int64_t width;  // H
  std::int64_t vocab;  // V
};

Extents check(const HeadLoss& arguments) {
  const Shape& x = internal::shape_of(arguments.x, "x", 2);
  const Shape& weight = internal::shape_of(arguments.weight, "weight", 2);
  const Extents extents{x[0], x[1], weight[0]};
  internal::require_f32(arguments.x, "x", x);
  internal::require_f32(arguments.weight, "weight", {extents.vocab, extents.width});
  internal::require(arguments.targets, "targets", DType::kI32, {extents.rows});
  internal::require_elements(arguments.loss_sum, "loss_sum", DType::kF64, 1);
  QD_CHECK(arguments.workspace.dtype() == DType::kF32);
  QD_CHECK_MSG(arguments.workspace.elements() >=
                   head_loss_chunk(extents.rows, extents.vocab) * extents.vocab,
               "the head's workspace holds less than a chunk of logits");
  internal::require_rounding(arguments.rounding,
                             head_loss_rounding(extents.rows, extents.vocab, extents.width));
  internal::require_rounded(arguments.rounded_weight, weight, arguments.rounding);
  QD_CHECK(arguments.dx.empty() == arguments.weight_gradient.empty());
  if (!arguments.dx.empty()) {
    internal::require_f32(arguments.dx, "dx", x);
    internal::require_f32(arguments.weight_gradient, "weight_gradient",
                          {extents.vocab, extents.width});
  }
  return extents;
}

/// What all chunks share: the operands of their products.
struct Factors {
  internal::ProductRounding rounding;
  internal::ProductOperand x;
  internal::ProductOperand weight;
  float* logits_room;  ///< A chunk's rounded gradient goes here.
};

struct Chunk {
  std::int64_t first;
  std::int64_t rows;
};

/// Its rows' logits, loss and, where wanted, gradients.
double run_chunk(const HeadLoss& arguments, const Extents& extents, const Factors& factors,
                 Chunk chunk) {
  const auto [first, rows] = chunk;
  const void* x = factors.x.from(first * extents.width).data;
  const void* weight = factors.weight.data;
  const bool bf16 = factors.rounding.bf16();
  float* logits = arguments.workspace.host<float>();
  const bool gradient = !arguments.dx.empty();
  internal::host_matmul({.a = x,
                         .b = weight,
                         .c = logits,
                         .m = rows,
                         .n = extents.vocab,
                         .k = extents.width,
                         .transpose_b = true,
                         .bf16 = bf16});
  const double loss =
      internal::host_cross_entropy({.logits = logits,
                                    .targets = arguments.targets.host<std::int32_t>() + first,
                                    .rows = rows,
                                    .vocab = extents.vocab,
                                    .gradient = gradient});
  if (!gradient) return loss;
  const internal::ProductOperand dlogits =
      factors.rounding.round(logits, rows * extents.vocab, factors.logits_room);
  internal::host_matmul({.a = dlogits.data,
                         .b = weight,
                         .c = arguments.dx.host<float>() + first * extents.width,
                         .m = rows,
                         .n = extents.width,
                         .k = extents.vocab,
                         .bf16 = bf16});
  internal::host_matmul({.a = dlogits.data,
                         .b = x,
                         .c = arguments.weight_gradient.host<float>(),
                         .m = extents.vocab,
                         .n = extents.width,
                         .k = rows,
                         .transpose_a = true,
                         .accumulate = arguments.accumulate || first > 0,
                         .bf16 = bf16});
  return loss;
}

void run(const HeadLoss& arguments, const Extents& extents) {
  const std::int32_t* targets = arguments.targets.host<std::int32_t>();
  for (std::int64_t row = 0; row < extents.rows; ++row) {
    QD_CHECK_MSG(targets[row] >= -1 && targets[row] < extents.vocab,
                 "target " + std::to_string(targets[row]) + " of a vocabulary of " +
                     std::to_string(extents.vocab));
  }
  const std::int64_t chunk = head_loss_chunk(extents.rows, extents.vocab);
  internal::ProductRounding rounding(arguments.rounding);
  const internal::ProductOperand rounded_x =
      rounding.round(arguments.x.host<float>(), extents.rows * extents.width);
  const internal::ProductOperand weight =
      rounding.take(arguments.weight.host<float>(), arguments.rounded_weight.address(),
                    extents.vocab * extents.width);
  float* room = rounding.take(chunk * extents.vocab);
  const Factors factors{rounding, rounded_x, weight, room};
  double loss = 0;
  for (std::int64_t first = 0; first < extents.rows; first += chunk) {
    loss += run_chunk(arguments, extents, factors, {first, std::min(chunk, extents.rows - first)});
  }
  arguments.loss_sum.host<double>()[0] += loss;
}

}  // namespace

std::int64_t head_loss_chunk(std::int64_t rows, std::int64_t vocab) {
  QD_CHECK(rows >= 0);
  QD_CHECK(vocab >= 1);
  const std::int64_t most = std::max(kLeastChunkRows, kChunkElements / vocab);
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

std::int64_t head_loss_rounding(std::int64_t rows, std::int64_t vocab, std::int64_t width) {
  return rounding_elements(rows * width) + rounding_elements(vocab * width) +
         rounding_elements(head_loss_chunk(rows, vocab) * vocab);
}

void head_loss(Stream& stream, const HeadLoss& arguments) {
  const Extents extents = check(arguments);
  std::vector<Operand> operands{internal::reads(arguments.x),
                                internal::reads(arguments.weight),
                                internal::reads(arguments.targets),
                                internal::updates(arguments.loss_sum),
                                internal::writes(arguments.workspace),
                                internal::writes(arguments.rounding.scratch),
                                internal::reads(arguments.rounded_weight)};
  const double product =
      2 * static_cast<double>(extents.rows * extents.width) * static_cast<double>(extents.vocab);
  Operation operation("head_loss", product);
  operation.extents = {extents.rows, extents.vocab, extents.width};
  if (!arguments.dx.empty()) {
    operation.flops = 3 * product;
    operands.push_back(internal::writes(arguments.dx));
    operands.push_back(arguments.accumulate ? internal::updates(arguments.weight_gradient)
                                            : internal::writes(arguments.weight_gradient));
  }
  stream.launch(operation, operands, [arguments, extents] { run(arguments, extents); });
}

}  // namespace quadrille::kernels
