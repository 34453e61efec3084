// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/hugging_face.h"

#include <fmt/format.h>

#include "config/hugging_face_config.h"
#include "config/job_values.h"
#include "quadrille/base/check.h"
#include "quadrille/base/file.h"

namespace quadrille {
namespace {

using internal::HuggingFaceFields;

// Source: transformers, models/gpt2/configuration_gpt2.py, whose defaults these are.
void read_gpt2(HuggingFaceFields& fields) {
  fields.model().set("family", "gpt2");
  fields.count("n_layer", "layers");
  fields.count("n_embd", "hidden");
  fields.count("n_head", "heads");
  const auto hidden = checked_multiply(fields.value("hidden"), 4);
  fields.count_or("n_inner", "ffn", hidden.value_or(0));
  fields.count("vocab_size", "vocab");
  fields.count("n_positions", "context");
  fields.bool_or("tie_word_embeddings", "tie_embeddings", true);
  fields.model().set("bias", true);
  fields.number_or("layer_norm_epsilon", "norm_epsilon", 1e-5);
  // Two names of the same approximation of GELU by a tanh.
  fields.one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  fields.must_be("scale_attn_weights", true);
  fields.must_be("scale_attn_by_inverse_layer_idx", false);
  fields.must_be("add_cross_attention", false);
}

// Positions: `rope_scaling` and `rope_theta` beside each other, or `rope_parameters` with both, as
// newer versions write them.
// Source: transformers, modeling_rope_utils.py.
void read_positions(HuggingFaceFields& fields) {
  const Json* rope = fields.find("rope_parameters");
  const char* key = rope == nullptr ? "rope_scaling" : "rope_parameters";
  if (rope == nullptr) rope = fields.find(key);
  if (rope != nullptr && !rope->is_object()) {
    return fields.report(key, internal::quoted_value(*rope) + " is not an object", "an object");
  }
  const Json none = Json::object();
  if (rope == nullptr) rope = &none;
  fields.number_or("rope_theta", "rope_base", rope->number_or("rope_theta", 10'000));
  const std::string type = rope->string_or("rope_type", rope->string_or("type", "default"));
  Json scaling = Json::object().set("type", type == "default" ? "none" : type);
  const auto copy = [&](const char* from, const char* to) {
    const Json* value = rope->find(from);
    if (value != nullptr && value->is_number()) return (void)scaling.set(to, *value);
    fields.report(key, fmt::format("it has no number \"{}\"", from), from);
  };
  if (type == "linear" || type == "llama3") copy("factor", "factor");
  if (type == "llama3") {
    copy("low_freq_factor", "low_freq_factor");
    copy("high_freq_factor", "high_freq_factor");
    copy("original_max_position_embeddings", "original_context");
  }
  if (type != "default" && type != "linear" && type != "llama3") {
    fields.report(key, fmt::format("the type \"{}\" is not available in this version", type),
                  "one of \"default\", \"linear\", \"llama3\"");
  }
  fields.model().set("rope_scaling", std::move(scaling));
}

// Source: transformers, models/llama/configuration_llama.py, whose defaults these are.
void read_llama(HuggingFaceFields& fields) {
  fields.model().set("family", "llama");
  fields.count("num_hidden_layers", "layers");
  fields.count("hidden_size", "hidden");
  fields.count("num_attention_heads", "heads");
  const std::int64_t heads = fields.value("heads");
  fields.count_or("num_key_value_heads", "kv_heads", heads);
  fields.count_or("head_dim", "head_dimension", heads == 0 ? 0 : fields.value("hidden") / heads);
  fields.count("intermediate_size", "ffn");
  fields.count("vocab_size", "vocab");
  fields.count("max_position_embeddings", "context");
  fields.bool_or("tie_word_embeddings", "tie_embeddings", false);
  fields.model().set("bias", false);
  fields.number_or("rms_norm_eps", "norm_epsilon", 1e-6);
  read_positions(fields);
  fields.one_of("hidden_act", {"silu", "swish"});
  fields.must_be("attention_bias", false);
  fields.must_be("mlp_bias", false);
}

Json rope_scaling_config(const RopeScaling& scaling) {
  if (scaling.type == RopeScalingType::kNone) return nullptr;
  Json config = Json::object().set("rope_type", kRopeScalingTypeText.text(scaling.type));
  config.set("factor", scaling.factor);
  if (scaling.type == RopeScalingType::kLlama3) {
    config.set("low_freq_factor", scaling.low_freq_factor);
    config.set("high_freq_factor", scaling.high_freq_factor);
    config.set("original_max_position_embeddings", scaling.original_context);
  }
  return config;
}

Json llama_config(const ModelSpec& model) {
  Json config = Json::object();
  config.set("architectures", Json::array().push("LlamaForCausalLM")).set("model_type", "llama");
  config.set("vocab_size", model.vocab).set("max_position_embeddings", model.context);
  config.set("hidden_size", model.hidden).set("intermediate_size", model.ffn);
  config.set("num_hidden_layers", model.layers).set("num_attention_heads", model.heads);
  config.set("num_key_value_heads", model.key_value_heads()).set("head_dim", model.head_width());
  config.set("hidden_act", "silu").set("rms_norm_eps", model.norm_epsilon);
  config.set("rope_theta", model.rope_base);
  config.set("rope_scaling", rope_scaling_config(model.rope_scaling));
  config.set("attention_bias", false).set("mlp_bias", false).set("attention_dropout", 0.0);
  config.set("tie_word_embeddings", model.tie_embeddings).set("initializer_range", 0.02);
  config.set("bos_token_id", nullptr).set("eos_token_id", nullptr);
  return config.set("use_cache", true).set("torch_dtype", "float32");
}

Json gpt2_config(const ModelSpec& model) {
  Json config = Json::object();
  config.set("architectures", Json::array().push("GPT2LMHeadModel")).set("model_type", "gpt2");
  config.set("vocab_size", model.vocab).set("n_positions", model.context);
  config.set("n_embd", model.hidden).set("n_layer", model.layers).set("n_head", model.heads);
  config.set("n_inner", model.ffn).set("activation_function", "gelu_new");
  config.set("layer_norm_epsilon", model.norm_epsilon);
  config.set("tie_word_embeddings", model.tie_embeddings);
  // Attention's weights themselves are never dropped here.
  config.set("embd_pdrop", model.dropout).set("resid_pdrop", model.dropout);
  config.set("attn_pdrop", 0.0).set("initializer_range", 0.02);
  config.set("scale_attn_weights", true).set("scale_attn_by_inverse_layer_idx", false);
  config.set("bos_token_id", nullptr).set("eos_token_id", nullptr);
  return config.set("use_cache", true).set("torch_dtype", "float32");
}

Result<WeightsModel> inner_model(const std::string& file, std::string_view outer) {
  QD_ASSIGN_OR_RETURN(const Json json, read_json_file(file));
  const Json* holder = json.find(outer);
  const Json* model = holder == nullptr ? nullptr : holder->find("model");
  if (model == nullptr || !model->is_object()) {
    return fail(Code::kCorrupt, "\"" + file + "\" does not say what its model is");
  }
  WeightsModel found{Json::object(), file};
  for (const auto& [key, value] : model->members()) {
    if (key != "weights" && key != "dropout") found.model.set(key, value);
  }
  return found;
}

}  // namespace

Result<Json> model_from_hugging_face(const Json& config, const std::string& file) {
  HuggingFaceFields fields(config, file);
  const Json* type = fields.find("model_type");
  if (type != nullptr && *type == Json("gpt2")) {
    read_gpt2(fields);
  } else if (type != nullptr && *type == Json("llama")) {
    read_llama(fields);
  } else {
    fields.report("model_type",
                  type == nullptr ? "missing"
                                  : internal::quoted_value(*type) +
                                        " is a family that this version does not have",
                  "\"gpt2\" or \"llama\"");
  }
  return fields.finish();
}

Json hugging_face_config(const ModelSpec& model) {
  QD_CHECK(!model.is_custom());
  return model.family == ModelFamily::kLlama ? llama_config(model) : gpt2_config(model);
}

Result<WeightsModel> read_weights_model(const std::string& path) {
  if (!path_exists(path)) return fail(Code::kNotFound, "\"" + path + "\" does not exist");
  const std::string config = path + "/config.json";
  if (path_exists(config)) {
    QD_ASSIGN_OR_RETURN(const Json json, read_json_file(config));
    QD_ASSIGN_OR_RETURN(Json model, model_from_hugging_face(json, config));
    return WeightsModel{std::move(model), config};
  }
  if (path_exists(path + "/manifest.json")) return inner_model(path + "/manifest.json", "state");
  if (path_exists(path + "/job.json")) return inner_model(path + "/job.json", "job");
  return fail(Code::kNotFound, "\"" + path +
                                   "\" has neither a config.json (of Hugging Face) nor a "
                                   "manifest.json (of a checkpoint) nor a job.json (of a run)");
}

}  // namespace quadrille
