// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "quadrille/base/text.h"
#include "quadrille/config/layout.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/data/corpus.h"
#include "quadrille/report/progress.h"

namespace quadrille::launcher {
namespace {

constexpr std::size_t kRecentSteps = 20;

/// Seconds spent evaluating, from the run's events.
Seconds evaluation_seconds(const std::string& events_path) {
  Seconds total;
  const auto text = read_text_file(events_path);
  if (!text) return total;
  for (const std::string& line : split(*text, '\n')) {
    if (line.find("\"evaluated\"") == std::string::npos) continue;
    if (const auto row = parse_json(line, {.file = events_path})) {
      total += Seconds(row->number_or("seconds", 0));
    }
  }
  return total;
}

}  // namespace

LaunchView::LaunchView(const Plan& plan, const RunPaths& paths)
    : plan_(plan), paths_(paths), follower_(paths.metrics()), events_(paths.events()) {
  follower_.poll();  // what an earlier launch left is not news
}

void LaunchView::begin(bool resumes) const {
  const ModelSpec& model = plan_.job.model;
  const std::string what = model.is_custom()
                               ? std::string("a program's own model")
                               : fmt::format("{} layers of width {}, {} parameters", model.layers,
                                             model.hidden, grouped(parameter_count(model)));
  print_line(fmt::format("{}: {}, {} steps of {} tokens", plan_.job.name, what,
                         plan_.job.training.steps, grouped(plan_.job.training.tokens_per_step())));
  const std::string most =
      plan_.rank_limit == Bytes(0) ? "" : ", at most " + to_text(plan_.rank_limit) + " a rank";
  print_line(fmt::format("{} rank{} ({}; {}), micro-batch {} x {}{}; results in {}{}",
                         plan_.ranks(), plan_.ranks() == 1 ? "" : "s", plan_.machine.backend,
                         layout_text(plan_.job.parallel), plan_.micro_batch, plan_.micro_batches,
                         most, paths_.directory,
                         resumes ? " (resuming if a checkpoint is there)" : ""));
}

void LaunchView::tick() {
  const std::size_t fresh = follower_.poll();
  if (fresh > 0) show_rows(fresh);
  show_warnings();
}

void LaunchView::show_warnings() {
  for (const std::string& warning : events_.poll()) {
    live_.end();
    complain("quadrille: warning: " + warning);
  }
}

void LaunchView::show_rows(std::size_t fresh) {
  const std::span<const StepRecord> rows(follower_.rows());
  const ProgressOptions options{.steps = plan_.job.training.steps,
                                .columns = live_.is_terminal() ? live_.columns() : 1000};
  for (std::size_t i = rows.size() - fresh; i < rows.size(); ++i) {
    const std::size_t first = i + 1 > kRecentSteps ? i + 1 - kRecentSteps : 0;
    const std::string line = progress_line(rows.subspan(first, i + 1 - first), options);
    const StepRecord& row = rows[i];
    live_.show(line);
    if (row.validation_loss) live_.end();  // keeps the evaluated steps on the screen
    const std::int64_t every = std::max<std::int64_t>(plan_.job.observe.log_every, 1);
    const bool is_due =
        row.step % every == 0 || row.step == 1 || row.validation_loss || row.step == options.steps;
    if (!live_.is_terminal() && is_due) print_line(line);
  }
}

void LaunchView::stopping() {
  live_.end();
  print_line("stopping: the state is saved first; once more stops at once");
}

void LaunchView::end(const LaunchResult& result) {
  tick();
  live_.end();
  switch (result.outcome) {
    case LaunchOutcome::kDone:
      show_summary();
      break;
    case LaunchOutcome::kStopped:
      print_line(fmt::format("stopped after step {}; the same command with --run-dir {} continues",
                             follower_.rows().empty() ? 0 : follower_.rows().back().step,
                             paths_.directory));
      break;
    case LaunchOutcome::kAborted:
      complain("stopped at once; the last checkpoint is kept");
      break;
    case LaunchOutcome::kFailed:
    case LaunchOutcome::kLost:
      show_failure(result);
      break;
  }
}

void LaunchView::show_summary() const {
  SummaryFacts facts;
  facts.run_directory = paths_.directory;
  facts.wall = monotonic_now() - started_;
  facts.planned_bytes = plan_.rank_bytes;
  facts.evaluation = evaluation_seconds(paths_.events());
  if (const auto corpus = Corpus::open(plan_.job))
    facts.unigram_entropy = (*corpus)->unigram_entropy();
  facts.files = {"metrics.jsonl   a row per step", "events.jsonl    what happened",
                 "checkpoints/    quadrille checkpoint ls " + paths_.directory};
  if (!plan_.job.model.is_custom()) {
    facts.files.push_back("write with      quadrille generate " + paths_.directory);
  }
  print_line("");
  print(summary(follower_.rows(), facts));
}

void LaunchView::show_failure(const LaunchResult& result) const {
  if (!result.last_lines.empty()) {
    complain(result.culprit ? fmt::format("last lines of rank {}:", result.culprit->value)
                            : std::string("last lines:"));
    for (const std::string& line : result.last_lines) complain("  " + line);
  }
  std::string text = "quadrille: ";
  if (result.culprit) text += fmt::format("rank {} failed", result.culprit->value);
  if (!result.culprit) text += "the run failed";
  if (!result.place.empty()) text += " in " + result.place;
  if (result.error) text += ": " + result.error->message;
  complain(text);
}

}  // namespace quadrille::launcher
