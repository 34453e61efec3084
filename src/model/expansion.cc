// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/expansion.h"

#include "model/linear.h"
#include "model/parameter_names.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/kernels/swiglu.h"

namespace quadrille::internal {
namespace {

class GeluExpansion final : public Expansion {
 public:
  GeluExpansion(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters)
      : fc_(parameters, block_prefix(spec, layer) + "mlp.c_fc", spec.bias) {}

  void forward(const LayerContext& context, const TensorView& x,
               const TensorView& expanded) const override {
    fc_.forward(context, x, expanded);
  }
  void decode(const DecodeBuffers& buffers, const TensorView& x,
              const TensorView& expanded) const override {
    fc_.decode(buffers, x, expanded);
  }
  void activate(Stream& stream, const TensorView& expanded,
                const TensorView& activated) const override {
    kernels::gelu_forward(stream, expanded, activated);
  }
  void activate_backward(Stream& stream, const TensorView& expanded,
                         const TensorView& gradient) const override {
    kernels::gelu_backward(stream, expanded, gradient, gradient);
  }
  [[nodiscard]] Result<void> add_gradients(LayerContext& context, const TensorView& x,
                                           const TensorView& dexpanded) const override {
    return fc_.add_gradients(context, x, dexpanded);
  }
  void input_gradient(const LayerContext& context, const TensorView& dexpanded,
                      const TensorView& dx) const override {
    fc_.input_gradient(context, dexpanded, dx);
  }
  void append_order(std::vector<int>& order) const override { fc_.append_order(order); }

 private:
  Linear fc_;
};

/// The gate [B, T, F] and the values [B, T, F] as two dense tensors one after the other.
class SwigluExpansion final : public Expansion {
 public:
  SwigluExpansion(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters)
      : gate_(parameters, block_prefix(spec, layer) + "mlp.gate_proj", spec.bias),
        up_(parameters, block_prefix(spec, layer) + "mlp.up_proj", spec.bias) {}

  void forward(const LayerContext& context, const TensorView& x,
               const TensorView& expanded) const override {
    gate_.forward(context, x, gate_of(expanded));
    up_.forward(context, x, up_of(expanded));
  }
  void decode(const DecodeBuffers& buffers, const TensorView& x,
              const TensorView& expanded) const override {
    gate_.decode(buffers, x, gate_of(expanded));
    up_.decode(buffers, x, up_of(expanded));
  }
  void activate(Stream& stream, const TensorView& expanded,
                const TensorView& activated) const override {
    kernels::swiglu_forward(stream, gate_of(expanded), up_of(expanded), activated);
  }
  void activate_backward(Stream& stream, const TensorView& expanded,
                         const TensorView& gradient) const override {
    kernels::swiglu_backward(stream, {.gate = gate_of(expanded),
                                      .up = up_of(expanded),
                                      .dy = gate_of(gradient),
                                      .dgate = gate_of(gradient),
                                      .dup = up_of(gradient)});
  }
  [[nodiscard]] Result<void> add_gradients(LayerContext& context, const TensorView& x,
                                           const TensorView& dexpanded) const override {
    QD_RETURN_IF_ERROR(up_.add_gradients(context, x, up_of(dexpanded)));
    return gate_.add_gradients(context, x, gate_of(dexpanded));
  }
  void input_gradient(const LayerContext& context, const TensorView& dexpanded,
                      const TensorView& dx) const override {
    gate_.input_gradient(context, gate_of(dexpanded), dx);
    up_.input_gradient(context, up_of(dexpanded), dx, true);
  }
  void append_order(std::vector<int>& order) const override {
    up_.append_order(order);
    gate_.append_order(order);
  }

 private:
  static TensorView gate_of(const TensorView& both) { return both.flat(0, both.elements() / 2); }
  static TensorView up_of(const TensorView& both) {
    return both.flat(both.elements() / 2, both.elements() / 2);
  }

  Linear gate_;
  Linear up_;
};

}  // namespace

std::unique_ptr<Expansion> make_expansion(const ModelSpec& spec, std::int64_t layer,
                                          std::span<const Parameter> parameters) {
  if (spec.family == ModelFamily::kLlama) {
    return std::make_unique<SwigluExpansion>(spec, layer, parameters);
  }
  return std::make_unique<GeluExpansion>(spec, layer, parameters);
}

}  // namespace quadrille::internal
