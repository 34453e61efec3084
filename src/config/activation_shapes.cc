// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What one micro-batch keeps. Per token, in floats of 4 bytes:
//   block, forward to backward   qkv 3H + attention H + middle H + fc F + log-sum-exp A
//                                + mean and rstd of two norms 4           = 5H + F + A + 4
//   block, output                H (the next layer's input)
//   one block at a time          forward H + F; backward H + max(F, 3H) + A; gradients 2 * H
//   head                         normed H, its gradient H, statistics 2, one chunk of logits
// With F = 4H a block keeps 40H + 4A + 16 bytes a token. Kept only as long as they are used, and
// computed again in backward: both norms' outputs (2H) and the GELU's (F), which would make it 64H.
// No kernel needs more: attention keeps a log-sum-exp instead of T x T scores.

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

void add_embedding(const ModelSpec& model, BatchShape batch, LayerList list) {
  list.add("output", {batch.micro_batch, batch.sequence, model.hidden}, ActivationLife::kOutput);
}

void add_block(const ModelSpec& model, BatchShape batch, LayerList list) {
  const std::int64_t b = batch.micro_batch;
  const std::int64_t t = batch.sequence;
  const std::int64_t h = model.hidden;
  list.add("ln_1.mean", {b, t}, ActivationLife::kSaved);
  list.add("ln_1.rstd", {b, t}, ActivationLife::kSaved);
  list.add("qkv", {b, t, 3 * h}, ActivationLife::kSaved);
  list.add("attention", {b, t, h}, ActivationLife::kSaved);
  list.add("log_sum_exp", {b, model.heads, t}, ActivationLife::kSaved);
  list.add("middle", {b, t, h}, ActivationLife::kSaved);
  list.add("ln_2.mean", {b, t}, ActivationLife::kSaved);
  list.add("ln_2.rstd", {b, t}, ActivationLife::kSaved);
  list.add("fc", {b, t, model.ffn}, ActivationLife::kSaved);
  list.add("output", {b, t, h}, ActivationLife::kOutput);
  // Norm outputs and projections before the residual sum, one after the other.
  list.add("branch", {b, t, h}, ActivationLife::kForward);
  list.add("gelu", {b, t, model.ffn}, ActivationLife::kForward);
  // Gradients and recomputed values [.., H]; gradients [.., F] of the MLP, then [.., 3H] of qkv.
  list.add("narrow", {b, t, h}, ActivationLife::kBackward);
  list.add("wide", {b, t, std::max(model.ffn, 3 * h)}, ActivationLife::kBackward);
  list.add("delta", {b, model.heads, t}, ActivationLife::kBackward);
  list.add("gradient", {b, t, h}, ActivationLife::kGradient);
}

void add_head(const ModelSpec& model, BatchShape batch, LayerList list) {
  const std::int64_t b = batch.micro_batch;
  const std::int64_t t = batch.sequence;
  const std::int64_t h = model.hidden;
  list.add("ln_f.mean", {b, t}, ActivationLife::kSaved);
  list.add("ln_f.rstd", {b, t}, ActivationLife::kSaved);
  list.add("normed_gradient", {b, t, h}, ActivationLife::kSaved);
  list.add("normed", {b, t, h}, ActivationLife::kForward);
  list.add("logits", {internal::logit_rows(b * t, model.vocab), model.vocab},
           ActivationLife::kForward);
  list.add("gradient", {b, t, h}, ActivationLife::kGradient);
}

}  // namespace

Bytes ActivationShape::bytes() const {
  Bytes bytes(element_bytes);
  for (const std::int64_t extent : shape) bytes = bytes * extent;
  return bytes;
}

std::vector<ActivationShape> activation_shapes(const ModelSpec& model, BatchShape batch) {
  std::vector<ActivationShape> all;
  if (model.is_custom()) return all;
  add_embedding(model, batch, LayerList(all, 0));
  for (std::int64_t layer = 1; layer <= model.layers; ++layer) {
    add_block(model, batch, LayerList(all, layer));
  }
  add_head(model, batch, LayerList(all, layer_count(model) - 1));
  return all;
}

}  // namespace quadrille
