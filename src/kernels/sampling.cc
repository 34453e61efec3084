// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/sampling.h"

#include <array>

#include "kernels/host_sampling.h"
#include "kernels/operands.h"

namespace quadrille::kernels {

void sampling_weights(Stream& stream, const SamplingWeights& arguments) {
  const Shape& logits = internal::shape_of(arguments.logits, "logits", 2);
  const std::int64_t blocks = (arguments.known + kSamplingBlock - 1) / kSamplingBlock;
  QD_CHECK(arguments.known >= 1 && arguments.known <= logits[1]);
  internal::require_f32(arguments.logits, "logits", logits);
  internal::require_f32(arguments.weights, "weights", {logits[0], arguments.known});
  internal::require(arguments.sums, "sums", DType::kF64, {logits[0], blocks});
  internal::require(arguments.best, "best", DType::kI32, {logits[0]});
  const std::array operands{internal::reads(arguments.logits), internal::writes(arguments.weights),
                            internal::writes(arguments.sums), internal::writes(arguments.best)};
  stream.launch("sampling_weights", operands,
                [arguments] { internal::host_sampling_weights(arguments); });
}

}  // namespace quadrille::kernels
