// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What generation and evaluation work with: a model whose values were read from a checkpoint, and
// the job it came from.

#include <memory>

#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/data/tokenizer.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"
#include "quadrille/model/decoder.h"
#include "quadrille/model/transformer.h"

namespace quadrille::internal {

/// Members are destroyed from the last to the first: leases before their pool.
struct InferenceModel {
  TrainingState state;
  JobSpec job;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Pool> pool;
  Lease values;
  std::unique_ptr<Transformer> model;
  DecoderWeights weights;
};

[[nodiscard]] Result<InferenceModel> load_inference_model(const Checkpoint& checkpoint,
                                                          Device& device, Precision precision);

}  // namespace quadrille::internal
