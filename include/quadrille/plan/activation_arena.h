// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// All activations of one micro-batch on one rank, and where each lives in the rank's one arena. The
// planner sizes memory from it and the trainer carves its lease by it, so the two cannot differ.

#include <span>
#include <vector>

#include "quadrille/config/model_shapes.h"
#include "quadrille/schedule/lifetimes.h"
#include "quadrille/schedule/program.h"

namespace quadrille {

struct ActivationArena {
  std::vector<ActivationShape> shapes;  ///< As activation_shapes() lists them.
  ArenaLayout layout;                   ///< One offset per shape.
};

/// `instructions` are one rank's.
[[nodiscard]] ActivationArena activation_arena(const ModelSpec& model, BatchShape batch,
                                               std::span<const Instruction> instructions,
                                               const TensorShare& share = {});

}  // namespace quadrille
