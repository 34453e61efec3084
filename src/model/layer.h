// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What all layers of the transformer have in common. A layer owns no tensor memory: it knows which
// parameters are its own and works on the views that a LayerContext hands it, through operations of
// the kernels room only.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/model/transformer.h"

namespace quadrille::internal {

/// A parameter as a layer holds it. Refers to nothing where the model has none (no biases).
class ParameterRef {
 public:
  ParameterRef() = default;
  /// The parameter called `name`, which must exist. `parameters` must not move afterwards.
  ParameterRef(std::span<const Parameter> parameters, std::string_view name);

  [[nodiscard]] bool exists() const { return parameter_ != nullptr; }
  [[nodiscard]] int index() const { return index_; }
  /// The rows that this rank uses; empty where there is no such parameter.
  [[nodiscard]] TensorView value() const;
  [[nodiscard]] TensorView gradient() const;
  /// The value's rounded form, where there is one and the pass's products are rounded.
  [[nodiscard]] TensorView rounded(const LayerContext& context) const;
  /// Over the tensor axis, on that dimension.
  [[nodiscard]] bool is_sharded(int dimension) const;
  /// Tells the runtime that one contribution to the gradient is complete.
  [[nodiscard]] Result<void> contribute(LayerContext& context) const;

 private:
  [[nodiscard]] TensorView used(const TensorView& whole) const;

  const Parameter* parameter_ = nullptr;
  int index_ = -1;
};

class Layer {
 public:
  virtual ~Layer() = default;
  [[nodiscard]] virtual Result<void> forward(LayerContext& context) const = 0;
  [[nodiscard]] virtual Result<void> backward(LayerContext& context) const = 0;
  /// The parameters whose last contribution comes from this layer, in the order of completion. (A
  /// tied head's weight is the embedding's to complete.)
  [[nodiscard]] virtual std::vector<int> backward_order() const = 0;
};

/// What the names of a block's dropout sites begin with in every family: "h.0." for layer 1.
[[nodiscard]] std::string site_prefix(std::int64_t layer);

/// Any shape as [elements / columns, columns].
[[nodiscard]] TensorView as_rows(const TensorView& view, std::int64_t columns);

/// All rows of x [.., width], of which this rank has its own where ranks share rows: then gathered
/// in the scratch [.., width] that is asked for (x may be its own rows of that), else x itself.
[[nodiscard]] Result<TensorView> whole_rows(const LayerContext& context, const TensorView& x,
                                            std::int64_t width,
                                            const std::function<TensorView()>& scratch);

/// The first elements of `scratch`, as many as `shape` has.
[[nodiscard]] TensorView front_of(const TensorView& scratch, const Shape& shape);

}  // namespace quadrille::internal
