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
// positions turn in place.

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

void add_norm(const ModelSpec& model, BatchShape batch, const std::string& name, LayerList list) {
  const std::vector<std::int64_t> rows{batch.micro_batch, batch.sequence};
  if (!model.has_rms_norm()) list.add(name + ".mean", rows, ActivationLife::kSaved);
  list.add(name + ".rstd", rows, ActivationLife::kSaved);
}

void add_block(const ModelSpec& model, BatchShape batch, LayerList list) {
  const std::int64_t b = batch.micro_batch;
  const std::int64_t t = batch.sequence;
  const std::int64_t h = model.hidden;
  const std::int64_t queries = model.query_columns();
  const std::int64_t expanded = model.expanded_columns();
  add_norm(model, batch, "attention_norm", list);
  list.add("qkv", {b, t, model.qkv_columns()}, ActivationLife::kSaved);
  list.add("attention", {b, t, queries}, ActivationLife::kSaved);
  list.add("log_sum_exp", {b, model.heads, t}, ActivationLife::kSaved);
  list.add("middle", {b, t, h}, ActivationLife::kSaved);
  add_norm(model, batch, "mlp_norm", list);
  list.add("expanded", {b, t, expanded}, ActivationLife::kSaved);
  list.add("output", {b, t, h}, ActivationLife::kOutput);
  // Norm outputs and projections before the residual sum, one after the other.
  list.add("branch", {b, t, h}, ActivationLife::kForward);
  list.add("activated", {b, t, model.ffn}, ActivationLife::kForward);
  // Gradients and recomputed values [.., H]; gradients [.., E] of the MLP, then of queries, keys
  // and values with that of the attention's output after them.
  list.add("narrow", {b, t, h}, ActivationLife::kBackward);
  list.add("wide", {b, t, std::max(expanded, model.qkv_columns() + queries)},
           ActivationLife::kBackward);
  list.add("delta", {b, model.heads, t}, ActivationLife::kBackward);
  list.add("gradient", {b, t, h}, ActivationLife::kGradient);
}

void add_head(const ModelSpec& model, BatchShape batch, LayerList list) {
  const std::int64_t b = batch.micro_batch;
  const std::int64_t t = batch.sequence;
  const std::int64_t h = model.hidden;
  add_norm(model, batch, "final_norm", list);
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
