// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How fast this machine generates, beside what bounds it: the products of a prompt by themselves,
// and the reading of the weights. Weights and tokens are random; tokens are drawn as generation
// draws them.

#include <cstdint>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/device/device.h"

namespace quadrille {

struct GenerationSpeedOptions {
  ModelSpec model;
  Precision precision = Precision::kFp32;
  std::int64_t prompt = 256;  ///< Tokens; of each sequence, before those that are decoded.
  std::vector<std::int64_t> batches = {1, 8};
  std::int64_t steps = 16;  ///< Decoded in each round, for each batch.
  int rounds = 5;           ///< Of all that is measured, in turn. One more goes before, unmeasured.
};

/// One entry a round each.
struct GenerationSpeed {
  std::vector<Seconds> prompt;    ///< `prompt` tokens through the model, logits of the last.
  std::vector<Seconds> products;  ///< The prompt's matrix products alone.
  std::vector<Seconds> read;      ///< All fp32 matrices read once, `read_bytes` of them.
  struct Decode {
    std::int64_t batch = 0;
    std::vector<Seconds> step;  ///< One token of each sequence.
  };
  std::vector<Decode> decode;  ///< By batch.
  Bytes weights;               ///< That a token reads.
  Bytes read_bytes;
  double prompt_flops = 0;  ///< Of the products.
};

/// Errors: kExhausted, kInvalid where prompt and steps do not fit the model's context.
[[nodiscard]] Result<GenerationSpeed> measure_generation(Device& device,
                                                         const GenerationSpeedOptions& options);

}  // namespace quadrille
