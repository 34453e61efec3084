// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "quadrille/base/text.h"
#include "quadrille/report/progress.h"

namespace quadrille {
namespace {

struct Totals {
  Seconds steps;
  Seconds compute;
  Seconds exposed;
  Seconds bubble;
  Seconds data;
  Seconds other;
  Seconds checkpoint_wait;
  std::int64_t tokens = 0;
};

Totals totals_of(std::span<const StepRecord> records) {
  Totals totals;
  for (const StepRecord& record : records) {
    totals.steps += record.seconds;
    totals.compute += record.compute;
    totals.exposed += record.exposed_communication;
    totals.bubble += record.bubble;
    totals.data += record.data;
    totals.other += record.other;
    totals.checkpoint_wait += record.checkpoint_wait;
    totals.tokens += record.tokens;
  }
  return totals;
}

std::string losses(std::span<const StepRecord> records, const SummaryFacts& facts) {
  const StepRecord& last = records.back();
  std::string text = fmt::format("Loss {:.4f} at step {}", last.loss, last.step);
  const auto evaluated = std::find_if(records.rbegin(), records.rend(),
                                      [](const auto& record) { return record.validation_loss; });
  if (evaluated != records.rend()) {
    text += fmt::format("; validation loss {:.4f} at step {}", *evaluated->validation_loss,
                        evaluated->step);
    if (facts.unigram_entropy) {
      text +=
          fmt::format(", {:.2f} of the text's unigram entropy ({:.4f} nats)",
                      *evaluated->validation_loss / *facts.unigram_entropy, *facts.unigram_entropy);
    }
  }
  return text + ".\n";
}

std::string time_table(const Totals& totals, const SummaryFacts& facts) {
  std::string text = fmt::format(
      "\nTime: {} in all, {} in steps ({} tokens, {} tokens/s)\n", to_text(facts.wall),
      to_text(totals.steps), grouped(totals.tokens),
      grouped(static_cast<long long>(static_cast<double>(totals.tokens) / totals.steps.count())));
  const auto row = [&text, &totals](const char* name, Seconds part) {
    text +=
        fmt::format("  {:<24}{:>12}{:>8.1f}%\n", name, to_text(part), 100 * (part / totals.steps));
  };
  row("compute", totals.compute);
  row("exposed communication", totals.exposed);
  row("bubble", totals.bubble);
  row("data", totals.data);
  row("other", totals.other);
  if (totals.checkpoint_wait.count() > 0) row("  waiting to save", totals.checkpoint_wait);
  if (facts.evaluation.count() > 0) {
    text += fmt::format("  {:<24}{:>12}  (beside the steps)\n", "evaluation",
                        to_text(facts.evaluation));
  }
  return text;
}

std::string memory_table(const StepRecord& last, const SummaryFacts& facts) {
  std::string text = fmt::format("\nMemory of the largest rank: peak {}\n  {:<24}{:>12}{:>12}\n",
                                 to_text(last.peak), "", "measured", "planned");
  for (const auto& [tag, measured] : last.peak_by_tag) {
    const auto planned = facts.planned_bytes.find(tag);
    const bool is_planned = planned != facts.planned_bytes.end();
    if (measured.count() == 0 && (!is_planned || planned->second.count() == 0)) continue;
    text += fmt::format("  {:<24}{:>12}{:>12}\n", tag, to_text(measured),
                        is_planned ? to_text(planned->second) : "-");
  }
  return text;
}

}  // namespace

std::string summary(std::span<const StepRecord> records, const SummaryFacts& facts) {
  if (records.empty()) return "No step was trained.\n";
  std::string text = loss_curve(records, {});
  if (!text.empty()) text += "\n";
  text += losses(records, facts);
  text += time_table(totals_of(records), facts);
  text += memory_table(records.back(), facts);
  text += "\nResults in " + facts.run_directory + "\n";
  for (const std::string& file : facts.files) text += "  " + file + "\n";
  return text;
}

}  // namespace quadrille
