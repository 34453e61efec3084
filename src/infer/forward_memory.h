// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Activations of a pass that no backward follows: a buffer is dead once the next layer has run, so
// layers share buffers of the same name, outputs by turns.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "quadrille/base/result.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {

class ForwardMemory {
 public:
  [[nodiscard]] static Result<ForwardMemory> create(const ModelSpec& model, BatchShape batch,
                                                    Pool& pool);
  /// QD_CHECKs that the forward pass of the layer has such an activation.
  [[nodiscard]] TensorView view(std::int64_t layer, std::string_view name) const;

 private:
  Lease lease_;
  std::map<std::pair<std::int64_t, std::string>, TensorView> views_;
};

}  // namespace quadrille::internal
