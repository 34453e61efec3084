// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A Plan for people: what runs, on whom, in how much memory, and why so.

#include <fmt/format.h>

#include "quadrille/base/text.h"
#include "quadrille/config/layout.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/plan/plan.h"

namespace quadrille {
namespace {

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string model_line(const ModelSpec& model) {
  if (model.is_custom()) {
    return fmt::format("custom: a program's own, vocabulary {}", grouped(model.vocab));
  }
  return fmt::format("{}: {}, {}, hidden {}, {}, vocabulary {}",
                     kModelFamilyText.text(model.family),
                     counted(parameter_count(model), "parameter"), counted(model.layers, "layer"),
                     model.hidden, counted(model.heads, "head"), grouped(model.vocab));
}

std::string training_line(const Plan& plan) {
  const TrainingSpec& training = plan.job.training;
  if (plan.job.model.is_custom()) {
    return fmt::format("{} of {} sequences of {} tokens: {} tokens a step",
                       counted(training.steps, "step"), training.global_batch, training.sequence,
                       grouped(training.tokens_per_step()));
  }
  const double flops = model_flops_per_token(plan.job.model, training.sequence).count() *
                       static_cast<double>(training.tokens_per_step());
  return fmt::format("{} of {} sequences of {} tokens: {} tokens and {:.3g} TFLOP a step",
                     counted(training.steps, "step"), training.global_batch, training.sequence,
                     grouped(training.tokens_per_step()), flops / 1e12);
}

std::string layout_line(const Plan& plan) {
  return fmt::format("{}: {} ({}), each {} of {} a step, {} at a time",
                     layout_text(plan.job.parallel), counted(plan.ranks(), "rank"),
                     plan.machine.backend,
                     counted(plan.micro_batch * plan.micro_batches, "sequence"),
                     plan.job.training.global_batch, plan.micro_batch);
}

std::string program_line(const Plan& plan) {
  if (plan.job.model.is_custom()) return "of its own";
  const std::size_t instructions = plan.program.ranks.empty() ? 0 : plan.program.ranks[0].size();
  return fmt::format("{} a rank over {} and {}",
                     counted(static_cast<std::int64_t>(instructions), "instruction"),
                     counted(plan.program.layers, "layer"),
                     plan.micro_batches == 1 ? std::string("one micro-batch")
                                             : grouped(plan.micro_batches) + " micro-batches");
}

/// "all 4 layers, ", or which part of them.
std::string work_text(const Plan& plan, Rank rank) {
  const ModelSpec& model = plan.job.model;
  if (model.is_custom()) return "";
  const std::string layers = fmt::format("all {} layers, ", plan.program.layers);
  const TensorShare share = plan.tensor_share(rank);
  if (share.degree == 1) return layers;
  const Extent heads = query_heads(model, share);
  const Extent words = vocab_rows(model, share);
  return layers + fmt::format("heads {} to {}, words {} to {}, ", heads.first,
                              heads.first + heads.length - 1, words.first,
                              words.first + words.length - 1);
}

std::string ranks_table(const Plan& plan) {
  std::string text;
  const std::int64_t share = plan.micro_batch * plan.micro_batches;
  constexpr int kShown = 8;
  const int ranks = plan.ranks();
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == kShown && ranks > kShown + 1) {
      text += fmt::format("    ... and {} more alike\n", ranks - kShown);
      break;
    }
    const std::int64_t first = plan.first_slot(Rank{rank});
    text += fmt::format("    rank {:<4} {}sequences {} to {} of each step\n", rank,
                        work_text(plan, Rank{rank}), first, first + share - 1);
  }
  return text;
}

std::string memory_table(const Plan& plan) {
  std::string text;
  Bytes total;
  for (const auto& [tag, bytes] : plan.rank_bytes) {
    text += fmt::format("    {:<14} {:>12}\n", tag, to_text(bytes));
    total += bytes;
  }
  text += fmt::format("    {:<14} {:>12}   (limit {})\n", "together", to_text(total),
                      to_text(plan.rank_limit));
  return text;
}

}  // namespace

std::string explain(const Plan& plan) {
  std::string text = fmt::format("Plan of \"{}\"\n", plan.job.name);
  text += fmt::format("  model     {}\n", model_line(plan.job.model));
  text += fmt::format("  training  {}\n", training_line(plan));
  text += fmt::format(
      "  machine   {}, {}, {} of memory\n", plan.machine.processor,
      counted(plan.machine.cores, "core"),
      plan.machine.memory == Bytes(0) ? "an unknown amount" : to_text(plan.machine.memory));
  text += fmt::format("  layout    {}\n", layout_line(plan));
  text += fmt::format("  program   {}\n", program_line(plan));
  text += "  who does what\n" + ranks_table(plan);
  if (!plan.job.model.is_custom()) {
    text += "  memory of each rank\n" + memory_table(plan);
    text += fmt::format("  disk      {} a checkpoint\n", to_text(plan.checkpoint_bytes));
  }
  text += fmt::format("  step      {}\n", plan.step_seconds ? to_text(*plan.step_seconds)
                                                            : "no prediction: no costs measured");
  text += "  why\n";
  for (const std::string& reason : plan.reasons) text += "    - " + reason + "\n";
  return text;
}

}  // namespace quadrille
