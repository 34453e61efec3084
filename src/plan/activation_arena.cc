// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/activation_arena.h"

#include "quadrille/base/check.h"

namespace quadrille {
namespace {

/// The two enums are one idea seen from two rooms that do not know each other; this is the one
/// place where they meet.
BufferLife buffer_life(ActivationLife life) {
  switch (life) {
    case ActivationLife::kSaved:
      return BufferLife::kSaved;
    case ActivationLife::kOutput:
      return BufferLife::kOutput;
    case ActivationLife::kForward:
      return BufferLife::kForward;
    case ActivationLife::kBackward:
      return BufferLife::kBackward;
    case ActivationLife::kGradient:
      return BufferLife::kGradient;
  }
  QD_CHECK_MSG(false, "unknown ActivationLife");
  return BufferLife::kSaved;
}

}  // namespace

ActivationArena activation_arena(const ModelSpec& model, BatchShape batch,
                                 std::span<const Instruction> instructions,
                                 const TensorShare& share) {
  ActivationArena arena{activation_shapes(model, batch, share), {}};
  std::vector<BufferRequest> requests;
  requests.reserve(arena.shapes.size());
  for (const ActivationShape& shape : arena.shapes) {
    requests.push_back({shape.layer, shape.bytes(), buffer_life(shape.life)});
  }
  arena.layout = lay_out_arena(instructions, requests);
  QD_CHECK(arena.layout.offsets.size() == arena.shapes.size());
  return arena;
}

}  // namespace quadrille
