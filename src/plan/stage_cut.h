// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How many layers the stages of a pipeline hold.

#include "quadrille/plan/training_run.h"

namespace quadrille::internal {

struct StageCut {
  double first = 0;  ///< Layers of the stage with the embedding.
  double inner = 0;  ///< Of the fullest stage between.
  double last = 0;   ///< Of the stage with the head.
};

/// Even where the layers divide; else, where they divide with embedding and head counted as a layer
/// each, so; else the first stages hold one more.
[[nodiscard]] StageCut cut_stages(const TransformerShape& model, const RunLayout& layout);

}  // namespace quadrille::internal
