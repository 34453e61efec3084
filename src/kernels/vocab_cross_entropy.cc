// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/vocab_cross_entropy.h"

#include <array>

#include "kernels/host_vocab_cross_entropy.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

/// QD_CHECKs what both operations take.
void check(const TensorView& logits, const TensorView& targets) {
  const Shape& shape = internal::shape_of(logits, "logits", 2);
  internal::require_f32(logits, "logits", shape);
  internal::require(targets, "targets", DType::kI32, {shape[0]});
  QD_CHECK_MSG(shape[1] >= 1, "a part of the vocabulary without a word");
}

internal::VocabPart part_of(const TensorView& logits, const TensorView& targets,
                            std::int64_t first_id) {
  return {.logits = logits.host<float>(),
          .targets = targets.host<std::int32_t>(),
          .rows = logits.shape()[0],
          .vocab = logits.shape()[1],
          .first_id = first_id};
}

}  // namespace

void vocab_statistics(Stream& stream, const VocabStatistics& arguments) {
  check(arguments.logits, arguments.targets);
  const std::int64_t rows = arguments.logits.shape()[0];
  internal::require_f32(arguments.statistics, "statistics", {rows, kRowStatistics});
  const std::array operands{internal::updates(arguments.logits), internal::reads(arguments.targets),
                            internal::writes(arguments.statistics)};
  stream.launch("vocab_statistics", operands, [arguments] {
    internal::host_vocab_statistics(
        part_of(arguments.logits, arguments.targets, arguments.first_id),
        arguments.statistics.host<float>());
  });
}

void vocab_cross_entropy(Stream& stream, const VocabCrossEntropy& arguments) {
  check(arguments.logits, arguments.targets);
  const std::int64_t rows = arguments.logits.shape()[0];
  const Shape& all = internal::shape_of(arguments.statistics, "statistics", 3);
  internal::require_f32(arguments.statistics, "statistics", {all[0], rows, kRowStatistics});
  internal::require_elements(arguments.loss_sum, "loss_sum", DType::kF64, 1);
  QD_CHECK(arguments.part >= 0 && arguments.part < all[0]);
  const std::array operands{internal::updates(arguments.logits), internal::reads(arguments.targets),
                            internal::reads(arguments.statistics),
                            internal::updates(arguments.loss_sum)};
  stream.launch("vocab_cross_entropy", operands, [arguments, parts = all[0]] {
    arguments.loss_sum.host<double>()[0] += internal::host_vocab_cross_entropy(
        part_of(arguments.logits, arguments.targets, arguments.first_id),
        {.statistics = arguments.statistics.host<float>(),
         .parts = parts,
         .own = arguments.part,
         .gradient = arguments.gradient});
  });
}

}  // namespace quadrille::kernels
