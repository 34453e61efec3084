// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/model_checks.h"

#include <fmt/format.h>

#include <cstdlib>

#include "config/job_values.h"

namespace quadrille::internal {
namespace {

std::int64_t nearest_divisor(std::int64_t number, std::int64_t wanted) {
  std::int64_t best = 1;
  for (std::int64_t candidate = 1; candidate <= number; ++candidate) {
    if (number % candidate != 0) continue;
    if (std::abs(candidate - wanted) < std::abs(best - wanted)) best = candidate;
  }
  return best;
}

class ModelChecker {
 public:
  ModelChecker(JobDraft& draft, JobFindings& findings)
      : draft_(draft), findings_(findings), model_(draft.job.model) {}

  void run() {
    if (!findings_.sound({"model.family"})) return;
    if (model_.is_custom()) return check_custom();
    for (const JobField& field : job_fields()) {
      take_family_default(field);
      check_scope(field);
    }
    complete_widths();
    check_bias();
    check_heads();
    check_key_value_heads();
    if (model_.family == ModelFamily::kLlama) {
      check_rotary_width();
      check_rope_scaling();
    }
  }

 private:
  [[nodiscard]] bool given(std::string_view path) const {
    return findings_.is_given(std::string(path));
  }

  // The program alone knows its model: a shape given here would be read by nobody.
  void check_custom() {
    for (const JobField& field : job_fields()) {
      const std::string path(field.path);
      if (!is_transformer_key(path) || !given(path)) continue;
      findings_.report(path, "a model of the family \"custom\" has no such key",
                       "vocab and context alone; the program takes its shape as arguments");
    }
  }

  void take_family_default(const JobField& field) {
    if (given(field.path)) return;
    for (const FamilyDefault& of : field.family_defaults) {
      if (of.family == model_.family) QD_CHECK(!read_value(field, of.value, draft_).has_value());
    }
  }

  void check_scope(const JobField& field) {
    const std::string path(field.path);
    if (field.applies_to(draft_.job)) {
      if (field.default_text != kRequiredThere || given(path) || !findings_.sound({path})) return;
      findings_.report(path, fmt::format("missing, with {}", field.scope.text),
                       expected_text(field));
      return;
    }
    if (!given(path)) return;
    findings_.report(path, "the key has no effect here",
                     fmt::format("a job without it, or with {}", field.scope.text));
  }

  void complete_widths() {
    const bool llama = model_.family == ModelFamily::kLlama;
    if (!given("model.ffn")) {
      model_.ffn = llama ? (8 * model_.hidden / 3 + 63) / 64 * 64 : 4 * model_.hidden;
    }
    if (!llama) return;
    if (!given("model.kv_heads")) model_.kv_heads = model_.heads;
    if (!given("model.head_dimension") && findings_.sound({"model.heads"}) && model_.heads > 0) {
      model_.head_dimension = model_.hidden / model_.heads;
    }
  }

  void check_bias() {
    if (model_.family != ModelFamily::kLlama || !model_.bias) return;
    findings_.report("model.bias", "the family \"llama\" has no biases", "false");
  }

  void check_heads() {
    if (given("model.head_dimension") || !findings_.sound({"model.hidden", "model.heads"})) return;
    if (model_.hidden % model_.heads == 0) return;
    findings_.report(
        "model.heads",
        fmt::format("{} heads do not divide model.hidden {}", model_.heads, model_.hidden),
        fmt::format("a divisor of {}, such as {}", model_.hidden,
                    nearest_divisor(model_.hidden, model_.heads)));
  }

  void check_key_value_heads() {
    if (!given("model.kv_heads") || !findings_.sound({"model.heads", "model.kv_heads"})) return;
    if (model_.heads % model_.kv_heads == 0) return;
    findings_.report("model.kv_heads",
                     fmt::format("{} key and value heads do not divide model.heads {}",
                                 model_.kv_heads, model_.heads),
                     fmt::format("a divisor of {}, such as {}", model_.heads,
                                 nearest_divisor(model_.heads, model_.kv_heads)));
  }

  void check_rotary_width() {
    if (!findings_.sound({"model.hidden", "model.heads", "model.head_dimension"})) return;
    const std::int64_t width = model_.head_width();
    if (width % 2 == 0) return;
    const bool own = given("model.head_dimension");
    findings_.report(
        own ? "model.head_dimension" : "model.heads",
        fmt::format("a head of {} numbers does not split into pairs for rotary positions", width),
        own ? fmt::format("an even number, such as {}", width + 1)
            : "as many heads as give each an even width");
  }

  void check_rope_scaling() {
    const RopeScaling& scaling = model_.rope_scaling;
    if (scaling.type != RopeScalingType::kLlama3) return;
    if (!findings_.sound(
            {"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"})) {
      return;
    }
    if (scaling.low_freq_factor < scaling.high_freq_factor) return;
    findings_.report("model.rope_scaling.high_freq_factor",
                     fmt::format("{} is not above low_freq_factor {}", scaling.high_freq_factor,
                                 scaling.low_freq_factor),
                     fmt::format("above {}", scaling.low_freq_factor));
  }

  JobDraft& draft_;
  JobFindings& findings_;
  ModelSpec& model_;
};

}  // namespace

void complete_and_check_model(JobDraft& draft, JobFindings& findings) {
  ModelChecker(draft, findings).run();
}

}  // namespace quadrille::internal
