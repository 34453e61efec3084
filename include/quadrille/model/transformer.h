// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The transformer as layers that all speak one interface: 0 is the embedding, 1..L are blocks, L+1
// is the final norm, head and loss. A layer works on views that it is handed: its parameters, its
// gradients and the activations that config's activation_shapes lists for it. It owns no tensor
// memory.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/device/device.h"
#include "quadrille/kernels/rounding.h"
#include "quadrille/mesh/piece.h"
#include "quadrille/model/tensor_group.h"

namespace quadrille {

/// A parameter as the runtime sees it: one logical tensor, whoever uses it.
struct Parameter {
  ParameterShape shape;   ///< Of the whole, with its placements.
  TensorPiece piece;      ///< What this rank holds; `value` and `gradient` have its shape.
  Extent used_rows;       ///< Of the piece: those that this rank multiplies. Fewer than all only
                          ///< for keys and values whose heads are fewer than the ranks.
  int contributions = 1;  ///< Gradient contributions per micro-batch: 2 for a tied embedding.
  /// The first contribution of a step's first micro-batch overwrites the gradient, whatever it
  /// held; all others add to it.
  bool overwritten = false;
  TensorView value;
  TensorView gradient;  ///< Empty in a model that only infers.
  /// What kernels::to_bf16 made of a value that products read, for passes whose products are
  /// rounded. Whoever changes the value makes it anew. Empty: each product rounds the value itself.
  TensorView rounded;

  [[nodiscard]] Shape own_shape() const;  ///< Of `value`.
};

/// What a layer needs for one micro-batch besides its parameters.
struct LayerContext {
  Stream* stream = nullptr;
  TensorView tokens;      ///< [B, T] int32
  TensorView targets;     ///< [B, T] int32, -1 where none counts
  TensorView loss_sum;    ///< [1] float64, added to by the last layer
  std::int64_t step = 0;  ///< Optimizer step from 0: keys the dropout masks.
  std::vector<std::int64_t>
      global_sequences;            ///< Global slot (0..B_global-1) of each row, for masks.
  bool training = true;            ///< Dropout and gradients; false for evaluation.
  bool first_micro_batch = false;  ///< Of the step: gradients begin anew where they may.
  std::uint64_t seed = 1;
  /// Of the factors of all matrix products but attention's own; scratch for rounding_scratch's
  /// elements.
  kernels::Rounding rounding;
  /// The activation `name` of `layer`, as activation_shapes names it.
  std::function<TensorView(std::int64_t layer, std::string_view name)> activation;
  TensorGroup tensor;  ///< The ranks that share the matrices; by default this one alone.
  /// Called when one contribution to parameter `index` is complete.
  std::function<Result<void>(int index)> contributed;
};

class Transformer {
 public:
  /// Declares the parameters, or this rank's part of them; binds no memory yet. Errors: kInvalid
  /// for a shape that cannot be, and for placements that do not fit each other, naming the tensor
  /// and the axis.
  [[nodiscard]] static Result<std::unique_ptr<Transformer>> create(const ModelSpec& spec,
                                                                   const TensorShare& share = {});
  ~Transformer();

  [[nodiscard]] const ModelSpec& spec() const;  ///< Of the whole.
  [[nodiscard]] std::int64_t layers() const;    ///< layer_count(spec)
  /// In parameter_shapes order.
  [[nodiscard]] std::vector<Parameter>& parameters();
  [[nodiscard]] const std::vector<Parameter>& parameters() const;
  /// Parameter indices in the order in which backward completes them.
  [[nodiscard]] std::vector<int> backward_order() const;

  /// Fills every value that is bound: the same numbers for any layout (keyed by seed and name).
  void initialise(Stream& stream, std::uint64_t seed);

  /// One layer of one micro-batch. Errors: those of `contributed`.
  [[nodiscard]] Result<void> forward(std::int64_t layer, LayerContext& context);
  [[nodiscard]] Result<void> backward(std::int64_t layer, LayerContext& context);

  struct State;

 private:
  explicit Transformer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
