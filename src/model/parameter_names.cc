// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/parameter_names.h"

namespace quadrille::internal {
namespace {

bool is_llama(const ModelSpec& spec) { return spec.family == ModelFamily::kLlama; }

}  // namespace

BlockNames block_names(const ModelSpec& spec, std::int64_t layer) {
  const std::string prefix = block_prefix(spec, layer);
  if (is_llama(spec)) {
    return {.attention_norm = prefix + "input_layernorm",
            .attention_output = prefix + "self_attn.o_proj",
            .mlp_norm = prefix + "post_attention_layernorm",
            .mlp_output = prefix + "mlp.down_proj"};
  }
  return {.attention_norm = prefix + "ln_1",
          .attention_output = prefix + "attn.c_proj",
          .mlp_norm = prefix + "ln_2",
          .mlp_output = prefix + "mlp.c_proj"};
}

std::string block_prefix(const ModelSpec& spec, std::int64_t layer) {
  return (is_llama(spec) ? "model.layers." : "h.") + std::to_string(layer - 1) + ".";
}

std::string token_embedding_name(const ModelSpec& spec) {
  return is_llama(spec) ? "model.embed_tokens.weight" : "wte.weight";
}

std::string head_name(const ModelSpec& spec) {
  return spec.tie_embeddings ? token_embedding_name(spec) : "lm_head.weight";
}

std::string final_norm_name(const ModelSpec& spec) {
  return is_llama(spec) ? "model.norm" : "ln_f";
}

bool has_learned_positions(const ModelSpec& spec) { return !is_llama(spec); }

}  // namespace quadrille::internal
