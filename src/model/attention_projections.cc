// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/attention_projections.h"

#include "model/decode_buffers.h"
#include "model/linear.h"
#include "model/parameter_names.h"
#include "model/rotary_frequencies.h"
#include "quadrille/kernels/rotary.h"

namespace quadrille::internal {
namespace {

class PackedProjection final : public AttentionProjections {
 public:
  PackedProjection(const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters)
      : heads_(spec.heads),
        qkv_(parameters, block_prefix(spec, layer) + "attn.c_attn", spec.bias) {}

  [[nodiscard]] kernels::AttentionInput arrange(const TensorView& qkv) const override {
    return kernels::packed_attention_input(qkv, heads_, heads_);
  }
  void forward(const LayerContext& context, const TensorView& x,
               const TensorView& qkv) const override {
    qkv_.forward(context, x, qkv);
  }
  void decode(const DecodeBuffers& buffers) const override {
    qkv_.decode(buffers, buffers.branch, buffers.qkv);
  }
  void backward_positions(Stream& /*stream*/, const TensorView& /*dqkv*/) const override {}
  [[nodiscard]] Result<void> add_gradients(LayerContext& context, const TensorView& x,
                                           const TensorView& dqkv) const override {
    return qkv_.add_gradients(context, x, dqkv);
  }
  void input_gradient(const LayerContext& context, const TensorView& dqkv,
                      const TensorView& dx) const override {
    qkv_.input_gradient(context, dqkv, dx);
  }
  void append_order(std::vector<int>& order) const override { qkv_.append_order(order); }

 private:
  std::int64_t heads_;
  Linear qkv_;
};

/// Queries, keys and values as three dense tensors one after the other in the memory of [B, T, (A +
/// 2K) * D], so that each is a product's whole result.
class RotaryProjections final : public AttentionProjections {
 public:
  RotaryProjections(const ModelSpec& spec, std::int64_t layer,
                    std::span<const Parameter> parameters)
      : heads_(spec.heads),
        kv_heads_(spec.key_value_heads()),
        width_(spec.head_width()),
        frequencies_(rotary_frequencies(spec)),
        queries_(parameters, block_prefix(spec, layer) + "self_attn.q_proj", spec.bias),
        keys_(parameters, block_prefix(spec, layer) + "self_attn.k_proj", spec.bias),
        values_(parameters, block_prefix(spec, layer) + "self_attn.v_proj", spec.bias) {}

  [[nodiscard]] kernels::AttentionInput arrange(const TensorView& qkv) const override {
    const std::int64_t batch = qkv.shape()[0];
    const std::int64_t sequence = qkv.shape()[1];
    std::int64_t taken = 0;
    const auto take = [&](std::int64_t heads) -> kernels::HeadColumns {
      const Shape shape{batch, sequence, heads * width_};
      const TensorView part = qkv.flat(taken, shape.elements()).reshape(shape);
      taken += shape.elements();
      return {part, 0};
    };
    kernels::AttentionInput input{.heads = heads_, .kv_heads = kv_heads_};
    input.queries = take(heads_);
    input.keys = take(kv_heads_);
    input.values = take(kv_heads_);
    return input;
  }

  void forward(const LayerContext& context, const TensorView& x,
               const TensorView& qkv) const override {
    const kernels::AttentionInput parts = arrange(qkv);
    queries_.forward(context, x, parts.queries.tensor);
    keys_.forward(context, x, parts.keys.tensor);
    values_.forward(context, x, parts.values.tensor);
    turn(*context.stream, parts, 0);
  }

  void decode(const DecodeBuffers& buffers) const override {
    const kernels::AttentionInput parts = arrange(buffers.qkv);
    queries_.decode(buffers, buffers.branch, parts.queries.tensor);
    keys_.decode(buffers, buffers.branch, parts.keys.tensor);
    values_.decode(buffers, buffers.branch, parts.values.tensor);
    for_equal_positions(buffers.sequences, [&](auto first, auto count, auto position) {
      kernels::AttentionInput rows = parts;
      rows.queries.tensor = parts.queries.tensor.rows(first, count);
      rows.keys.tensor = parts.keys.tensor.rows(first, count);
      turn(*buffers.stream, rows, position);
    });
  }

  void backward_positions(Stream& stream, const TensorView& dqkv) const override {
    const kernels::AttentionInput parts = arrange(dqkv);
    kernels::rotary(stream, {.queries = parts.queries.tensor,
                             .keys = parts.keys.tensor,
                             .frequencies = frequencies_,
                             .inverse = true});
  }

  [[nodiscard]] Result<void> add_gradients(LayerContext& context, const TensorView& x,
                                           const TensorView& dqkv) const override {
    const kernels::AttentionInput parts = arrange(dqkv);
    QD_RETURN_IF_ERROR(values_.add_gradients(context, x, parts.values.tensor));
    QD_RETURN_IF_ERROR(keys_.add_gradients(context, x, parts.keys.tensor));
    return queries_.add_gradients(context, x, parts.queries.tensor);
  }

  void input_gradient(const LayerContext& context, const TensorView& dqkv,
                      const TensorView& dx) const override {
    const kernels::AttentionInput parts = arrange(dqkv);
    queries_.input_gradient(context, parts.queries.tensor, dx);
    keys_.input_gradient(context, parts.keys.tensor, dx, true);
    values_.input_gradient(context, parts.values.tensor, dx, true);
  }

  void append_order(std::vector<int>& order) const override {
    values_.append_order(order);
    keys_.append_order(order);
    queries_.append_order(order);
  }

 private:
  void turn(Stream& stream, const kernels::AttentionInput& parts,
            std::int64_t first_position) const {
    kernels::rotary(stream, {.queries = parts.queries.tensor,
                             .keys = parts.keys.tensor,
                             .frequencies = frequencies_,
                             .first_position = first_position});
  }

  std::int64_t heads_;
  std::int64_t kv_heads_;
  std::int64_t width_;
  std::vector<double> frequencies_;
  Linear queries_;
  Linear keys_;
  Linear values_;
};

}  // namespace

std::unique_ptr<AttentionProjections> make_attention_projections(
    const ModelSpec& spec, std::int64_t layer, std::span<const Parameter> parameters) {
  if (spec.family == ModelFamily::kLlama) {
    return std::make_unique<RotaryProjections>(spec, layer, parameters);
  }
  return std::make_unique<PackedProjection>(spec, layer, parameters);
}

}  // namespace quadrille::internal
