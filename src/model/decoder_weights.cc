// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "model/parameter_names.h"
#include "quadrille/kernels/projection.h"
#include "quadrille/model/decoder.h"

namespace quadrille {
namespace {

/// Whether a product reads the parameter: all matrices, but tables that are looked up only.
bool is_multiplied(const ModelSpec& spec, const ParameterShape& shape) {
  if (shape.shape.size() != 2) return false;
  if (shape.name == internal::head_name(spec)) return true;
  const bool positions = internal::has_learned_positions(spec) && shape.name == "wpe.weight";
  return !positions && shape.name != internal::token_embedding_name(spec);
}

/// Each at a cache line.
Bytes rounded_bytes(const TensorView& value) {
  return Bytes((value.elements() * 2 + 63) / 64 * 64);
}

}  // namespace

Result<DecoderWeights> DecoderWeights::create(const Transformer& model, Precision precision,
                                              Stream& stream, Pool& pool) {
  DecoderWeights weights;
  weights.rounded_.resize(model.parameters().size());
  Bytes total;
  for (const Parameter& parameter : model.parameters()) {
    weights.multiplied_.push_back(is_multiplied(model.spec(), parameter.shape));
    if (!weights.multiplied_.back()) continue;
    weights.bytes_ += parameter.value.bytes();
    total += rounded_bytes(parameter.value);
  }
  if (precision == Precision::kFp32) return weights;
  QD_ASSIGN_OR_RETURN(weights.lease_, pool.lease(total, MemoryTag::kParameter, "bf16 weights"));
  weights.bytes_ = total;
  Bytes taken;
  for (std::size_t i = 0; i < weights.rounded_.size(); ++i) {
    const Parameter& parameter = model.parameters()[i];
    if (!weights.multiplied_[i]) continue;
    const Shape& shape = parameter.value.shape();
    weights.rounded_[i] = weights.lease_.view_at(taken, DType::kU8, {shape[0], 2 * shape[1]});
    kernels::to_bf16(stream, parameter.value, weights.rounded_[i]);
    taken += rounded_bytes(parameter.value);
  }
  return weights;
}

TensorView DecoderWeights::of(int index, const TensorView& value) const {
  const TensorView& rounded = rounded_[static_cast<std::size_t>(index)];
  return rounded.empty() ? value : rounded;
}

std::int64_t DecoderWeights::scratch(std::int64_t rows) const {
  std::int64_t most = 0;
  for (const TensorView& weight : rounded_) {
    if (weight.empty()) continue;
    const Shape& shape = weight.shape();
    most = std::max(most, kernels::projection_scratch(rows, shape[0], shape[1] / 2));
  }
  return most;
}

}  // namespace quadrille
