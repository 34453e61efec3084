// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a ModelSpec implies, as plain data: its parameters and the activations that a layer keeps
// (none that we know of where the family is custom).
// The planner sizes memory from it, the model builds exactly these tensors, and a test holds the
// two together, so a prediction and a run cannot drift apart.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quadrille/base/units.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/config/tensor_share.h"
#include "quadrille/mesh/piece.h"

namespace quadrille {

/// Layers are numbered 0 (embedding), 1..L (blocks), L+1 (final norm, head and loss).
[[nodiscard]] constexpr std::int64_t layer_count(const ModelSpec& model) {
  return model.layers + 2;
}

struct ParameterShape {
  std::string name;  ///< Hugging Face's: `h.0.attn.c_attn.weight` of a GPT-2,
                     ///< `model.layers.0.self_attn.q_proj.weight` of a Llama.
  std::int64_t layer = 0;
  std::vector<std::int64_t> shape;  ///< Row-major, of the whole.
  bool decayed = false;             ///< Weight decay applies (matrices and embeddings).
  bool in_product = false;          ///< A matrix product uses it: counts for MFU.
  double initial_deviation = 0;     ///< Normal(0, this); 0 with `initial_constant`.
  double initial_constant = 0;
  Placement placement;           ///< Of the value, and of its gradient once it is reduced.
  Placement gradient_placement;  ///< Of what a rank's backward passes add up to: the sums that are
                                 ///< still owed are partial.

  [[nodiscard]] std::int64_t elements() const;  ///< Of the whole.
  /// What the rank of this share holds.
  [[nodiscard]] TensorPiece piece(const TensorShare& share) const;
};

/// In layer order; a tied head adds no parameter. Matrices of linear layers are [out, in] here and
/// in memory; Hugging Face's GPT-2 stores them [in, out] (import and export transpose), its Llama
/// as here. The rows of a Llama's q_proj and k_proj are in Hugging Face's order too: the rotary
/// pairs of a head are (i, i + D/2). The placements are those for `share.degree` ranks on the
/// tensor axis; `share.index` means nothing here.
[[nodiscard]] std::vector<ParameterShape> parameter_shapes(const ModelSpec& model,
                                                           const TensorShare& share = {});
/// Indices into parameter_shapes in the order in which backward completes their gradients: how they
/// lie in buckets.
[[nodiscard]] std::vector<int> backward_order(const ModelSpec& model);
/// Indices into parameter_shapes of what each layer uses; a tied embedding is in two.
[[nodiscard]] std::vector<std::vector<int>> parameters_of_layers(const ModelSpec& model);
/// How often one micro-batch adds to the gradient of `parameter`: twice to a tied embedding's.
[[nodiscard]] int gradient_contributions(const ModelSpec& model, const ParameterShape& parameter);
[[nodiscard]] std::int64_t parameter_count(const ModelSpec& model);
/// The same for a model that nobody has checked yet: nothing where it leaves int64.
[[nodiscard]] std::optional<std::int64_t> checked_parameter_count(const ModelSpec& model);

enum class ActivationLife : std::uint8_t {
  kSaved,     ///< From the layer's forward to its backward.
  kOutput,    ///< From the layer's forward to the next layer's backward (its input is this).
  kForward,   ///< Only inside the layer's forward.
  kBackward,  ///< Only inside the layer's backward.
  kGradient,  ///< Gradient of the layer's input: from its backward to the previous layer's
              ///< backward.
};

struct ActivationShape {
  std::string name;  ///< Unique within the layer, e.g. `qkv`.
  std::int64_t layer = 0;
  std::vector<std::int64_t> shape;
  std::int64_t element_bytes = 4;
  ActivationLife life = ActivationLife::kSaved;

  [[nodiscard]] Bytes bytes() const;
};

struct BatchShape {
  std::int64_t micro_batch = 1;  ///< B
  std::int64_t sequence = 1;     ///< T
};

/// Everything one micro-batch needs on one rank besides parameters, in layer order.
[[nodiscard]] std::vector<ActivationShape> activation_shapes(const ModelSpec& model,
                                                             BatchShape batch,
                                                             const TensorShare& share = {});

/// Elements of scratch that the largest product of one micro-batch takes to round its operands
/// where products are not fp32 (kernels' rounding.h; a test holds them together); 0
/// for a program's own model.
[[nodiscard]] std::int64_t rounding_scratch(const ModelSpec& model, BatchShape batch,
                                            const TensorShare& share = {});

/// FLOPs that count for MFU, forward and backward: 6 per parameter that a matrix product uses, plus
/// causal attention. A sequence has T(T+1)/2 query-key pairs; scores and values take 2*A*D each,
/// backward twice that: 3 * 4*A*D * T(T+1)/2 a layer and sequence, so 6*L*A*D*(T+1) a token. Query
/// heads that share keys and values do as many multiplications as heads that do not.
[[nodiscard]] Flops model_flops_per_token(const ModelSpec& model, std::int64_t sequence);

}  // namespace quadrille
