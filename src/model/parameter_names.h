// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the two families call the parameters that both have. The names are config's
// parameter_shapes', and those of Hugging Face's files.

#include <cstdint>
#include <string>

#include "quadrille/config/job_spec.h"

namespace quadrille::internal {

/// Without ".weight".
struct BlockNames {
  std::string attention_norm;
  std::string attention_output;
  std::string mlp_norm;
  std::string mlp_output;
};
/// `layer` is the transformer's layer number, 1 for the first block.
[[nodiscard]] BlockNames block_names(const ModelSpec& spec, std::int64_t layer);

/// What a block's parameters begin with: "h.0." or "model.layers.0." for layer 1.
[[nodiscard]] std::string block_prefix(const ModelSpec& spec, std::int64_t layer);

[[nodiscard]] std::string token_embedding_name(const ModelSpec& spec);  ///< With ".weight".
[[nodiscard]] std::string head_name(const ModelSpec& spec);             ///< With ".weight".
[[nodiscard]] std::string final_norm_name(const ModelSpec& spec);

/// Whether a position's embedding is a parameter, `wpe.weight`.
[[nodiscard]] bool has_learned_positions(const ModelSpec& spec);

}  // namespace quadrille::internal
