// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/forward_memory.h"

#include <algorithm>
#include <vector>

namespace quadrille::internal {
namespace {

bool in_forward(const ActivationShape& activation) {
  return activation.life != ActivationLife::kBackward &&
         activation.life != ActivationLife::kGradient;
}

/// Activations of one key use the same bytes.
std::string key_of(const ActivationShape& activation) {
  if (activation.life != ActivationLife::kOutput) return activation.name;
  return activation.name + (activation.layer % 2 == 0 ? " even" : " odd");
}

Shape shape_of(const std::vector<std::int64_t>& extents) {
  if (extents.size() == 2) return {extents[0], extents[1]};
  QD_CHECK(extents.size() == 3);
  return {extents[0], extents[1], extents[2]};
}

}  // namespace

Result<ForwardMemory> ForwardMemory::create(const ModelSpec& model, BatchShape batch, Pool& pool) {
  const std::vector<ActivationShape> all = activation_shapes(model, batch);
  std::map<std::string, Bytes> most;
  for (const ActivationShape& activation : all) {
    if (!in_forward(activation)) continue;
    Bytes& bytes = most[key_of(activation)];
    bytes = std::max(bytes, activation.bytes());
  }
  Bytes total;
  std::map<std::string, Bytes> offsets;
  for (const auto& [key, bytes] : most) {
    offsets[key] = total;
    total += Bytes((bytes.count() + 63) / 64 * 64);
  }
  ForwardMemory memory;
  QD_ASSIGN_OR_RETURN(memory.lease_, pool.lease(total, MemoryTag::kActivation, "activations"));
  for (const ActivationShape& activation : all) {
    if (!in_forward(activation)) continue;
    memory.views_[{activation.layer, activation.name}] = memory.lease_.view_at(
        offsets.at(key_of(activation)), DType::kF32, shape_of(activation.shape));
  }
  return memory;
}

TensorView ForwardMemory::view(std::int64_t layer, std::string_view name) const {
  const auto found = views_.find({layer, std::string(name)});
  QD_CHECK_MSG(found != views_.end(), std::string(name));
  return found->second;
}

}  // namespace quadrille::internal
