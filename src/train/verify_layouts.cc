// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/train/verify_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quadrille/config/model_shapes.h"
#include "train/layout_comparison.h"

namespace quadrille {
namespace {

constexpr std::int64_t kLayers = 2;
constexpr std::int64_t kHeadWidth = 8;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kSequence = 32;

/// Keeps what the cuts depend on: every head, and F in proportion to H.
void reduce(ModelSpec& model) {
  const std::int64_t before = model.hidden;
  const std::int64_t width = std::min(model.head_width(), kHeadWidth);
  model.layers = std::min(model.layers, kLayers);
  if (model.family == ModelFamily::kGpt2) {
    model.hidden = model.heads * width;
  } else {
    model.head_dimension = width;
    model.hidden = std::min(model.hidden, kHidden);
  }
  model.ffn = std::max<std::int64_t>(1, model.ffn * model.hidden / before);
  model.weights.clear();
}

Result<std::vector<internal::TracedStep>> run(JobSpec job, const Layout& layout,
                                              const VerifyOptions& options, const char* name) {
  job.parallel = layout.parallel;
  job.training.micro_batch = layout.micro_batch;
  auto steps = internal::trace_layout(job, options.steps, options.folder + "/" + name);
  if (steps) return steps;
  return fail(with_context(steps.error(), "layout " + layout_text(layout.parallel)));
}

}  // namespace

JobSpec reduced_job(const JobSpec& job, const Layout& a, const Layout& b) {
  JobSpec small = job;
  reduce(small.model);
  TrainingSpec& training = small.training;
  training.sequence = std::min(training.sequence, kSequence);
  small.model.context = std::max(training.sequence, std::min(job.model.context, 2 * kSequence));
  const auto unit = [](const Layout& layout) {
    return layout.parallel.data * std::max<std::int64_t>(layout.micro_batch, 1);
  };
  training.global_batch = std::lcm(unit(a), unit(b));
  training.precision = Precision::kFp32;
  // Large enough that noise in gradients that are zero moves no weight.
  training.epsilon = std::max(training.epsilon, 1e-4);
  training.evaluate_every = 0;
  small.checkpoint = {};
  small.observe.compare_every = 0;
  return small;
}

Result<VerifyOutcome> verify_layouts(const JobSpec& job, const VerifyOptions& options) {
  if (job.model.is_custom()) {
    return fail(Code::kInvalid,
                "model.family \"custom\" is a program's own model: nothing here can run it");
  }
  JobSpec small = reduced_job(job, options.a, options.b);
  small.training.steps = std::max(small.training.steps, options.steps);
  QD_ASSIGN_OR_RETURN(const auto a, run(small, options.a, options, "a"));
  QD_ASSIGN_OR_RETURN(const auto b, run(small, options.b, options, "b"));
  const ModelSpec& model = small.model;
  VerifyOutcome outcome;
  outcome.model = fmt::format(
      "{} layers of width {}, {} heads, {} columns, {} words; {} sequences of {} tokens a step",
      model.layers, model.hidden, model.heads, model.ffn, model.vocab, small.training.global_batch,
      small.training.sequence);
  outcome.difference = internal::first_difference(a, b, options.a.parallel, options.b.parallel);
  return outcome;
}

}  // namespace quadrille
