// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What one micro-batch keeps. Per token, in floats of 4 bytes, with Q = (A + 2K) D columns of
// queries, keys and values and E of the expanded MLP (F, or 2F with a gate):
//   block, forward to backward   qkv Q + attention AD + middle H + expanded E + log-sum-exp A
//                                + statistics of two norms: 4, or 2 without means
//   block, output                H (the next layer's input)
//   one block at a time          forward H + F; backward H + max(E, Q + AD) + A; gradients 2 * H
//   head                         normed H, its gradient H, statistics, one chunk of logits
// A GPT-2 with F = 4H keeps 40H + 4A + 16 bytes a token. Kept only as long as they are used, and
// computed again in backward: both norms' outputs (2H) and the activated MLP (F), which would make
// it 64H. No kernel needs more: attention keeps a log-sum-exp instead of T x T scores, rotary
// positions turn in place. On the tensor axis a rank has its part of Q, A, E, F and V; with
// `sequence` its rows of outputs, middle, gradients and statistics.

#include <algorithm>
#include <utility>

#include "config/logit_rows.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille {
namespace {

/// Collects the activations of one layer.
class LayerList {
 public:
  LayerList(std::vector<ActivationShape>& all, std::int64_t layer) : all_(all), layer_(layer) {}
  void add(std::string name, std::vector<std::int64_t> shape, ActivationLife life) {
    all_.push_back({std::move(name), layer_, std::move(shape), 4, life});
  }

 private:
  std::vector<ActivationShape>& all_;
  std::int64_t layer_;
};

/// The extents that a rank works with: all of the model's where it is alone on the tensor axis.
struct RankExtents {
  RankExtents(const ModelSpec& model, BatchShape batch, const TensorShare& share)
      : b(batch.micro_batch),
        t(batch.sequence),
        h(model.hidden),
        heads(query_heads(model, share).length),
        queries(heads * model.head_width()),
        qkv(queries + 2 * kv_heads(model, share).length * model.head_width()),
        ffn(ffn_columns(model, share).length),
        expanded(ffn * (model.expanded_columns() / model.ffn)),
        vocab(vocab_rows(model, share).length),
        residual(residual_rows(batch.micro_batch * batch.sequence, share).length) {}

  /// Of the residual stream, of whatever width: [B, T, width], or this rank's rows of it.
  [[nodiscard]] std::vector<std::int64_t> residual_of(std::int64_t width,
                                                      const TensorShare& share) const {
    if (share.shares_rows()) return {residual, width};
    return {b, t, width};
  }

  std::int64_t b, t, h, heads, queries, qkv, ffn, expanded, vocab;
  std::int64_t residual;  ///< Rows of norms, dropout and residuals.
};

class ShapeBuilder {
 public:
  ShapeBuilder(const ModelSpec& model, BatchShape batch, const TensorShare& share)
      : model_(model), share_(share), n_(model, batch, share) {}

  void add_embedding(LayerList list) const {
    list.add("output", n_.residual_of(n_.h, share_), ActivationLife::kOutput);
    if (!share_.shares_rows()) return;
    // All rows of this rank's words before the sum; in backward all rows' gradients.
    list.add("partial", {n_.b, n_.t, n_.h}, ActivationLife::kForward);
    list.add("gathered", {n_.b, n_.t, n_.h}, ActivationLife::kBackward);
  }

  void add_block(LayerList list) const {
    const std::vector<std::int64_t> wide_rows{n_.b, n_.t, n_.h};
    add_norm("attention_norm", list);
    list.add("qkv", {n_.b, n_.t, n_.qkv}, ActivationLife::kSaved);
    list.add("attention", {n_.b, n_.t, n_.queries}, ActivationLife::kSaved);
    list.add("log_sum_exp", {n_.b, n_.heads, n_.t}, ActivationLife::kSaved);
    list.add("middle", n_.residual_of(n_.h, share_), ActivationLife::kSaved);
    add_norm("mlp_norm", list);
    list.add("expanded", {n_.b, n_.t, n_.expanded}, ActivationLife::kSaved);
    list.add("output", n_.residual_of(n_.h, share_), ActivationLife::kOutput);
    // Norm outputs and projections before the residual sum, one after the other.
    list.add("branch", wide_rows, ActivationLife::kForward);
    list.add("activated", {n_.b, n_.t, n_.ffn}, ActivationLife::kForward);
    // Gradients and recomputed values [.., H]; gradients [.., E] of the MLP, then of queries, keys
    // and values with that of the attention's output after them.
    list.add("narrow", wide_rows, ActivationLife::kBackward);
    list.add("wide", {n_.b, n_.t, std::max(n_.expanded, n_.qkv + n_.queries)},
             ActivationLife::kBackward);
    list.add("delta", {n_.b, n_.heads, n_.t}, ActivationLife::kBackward);
    list.add("gradient", n_.residual_of(n_.h, share_), ActivationLife::kGradient);
  }

  void add_head(LayerList list) const {
    add_norm("final_norm", list);
    list.add("normed_gradient", {n_.b, n_.t, n_.h}, ActivationLife::kSaved);
    list.add("normed", {n_.b, n_.t, n_.h}, ActivationLife::kForward);
    const std::int64_t rows = internal::logit_rows(n_.b * n_.t, widest_vocab());
    list.add("logits", {rows, n_.vocab}, ActivationLife::kForward);
    if (share_.degree > 1) {
      // What each rank knows of a row: its largest logit, their sum of exponentials, the target's.
      list.add("statistics", {share_.degree, rows, 3}, ActivationLife::kForward);
    }
    list.add("gradient", n_.residual_of(n_.h, share_), ActivationLife::kGradient);
  }

 private:
  void add_norm(const std::string& name, LayerList list) const {
    std::vector<std::int64_t> rows{n_.b, n_.t};
    if (share_.shares_rows()) rows = {n_.residual};
    if (!model_.has_rms_norm()) list.add(name + ".mean", rows, ActivationLife::kSaved);
    list.add(name + ".rstd", rows, ActivationLife::kSaved);
  }

  /// All ranks of the tensor axis cut their logits alike: by the widest part, the first rank's.
  [[nodiscard]] std::int64_t widest_vocab() const {
    return vocab_rows(model_, {.degree = share_.degree, .index = 0, .sequence = false}).length;
  }

  const ModelSpec& model_;
  const TensorShare& share_;
  RankExtents n_;
};

}  // namespace

Bytes ActivationShape::bytes() const {
  Bytes bytes(element_bytes);
  for (const std::int64_t extent : shape) bytes = bytes * extent;
  return bytes;
}

std::vector<ActivationShape> activation_shapes(const ModelSpec& model, BatchShape batch,
                                               const TensorShare& share) {
  std::vector<ActivationShape> all;
  if (model.is_custom()) return all;
  const ShapeBuilder builder(model, batch, share);
  builder.add_embedding(LayerList(all, 0));
  for (std::int64_t layer = 1; layer <= model.layers; ++layer) {
    builder.add_block(LayerList(all, layer));
  }
  builder.add_head(LayerList(all, layer_count(model) - 1));
  return all;
}

}  // namespace quadrille
