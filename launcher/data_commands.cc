// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille data prepare | inspect

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/base/text.h"
#include "quadrille/launch/signal_pipe.h"

namespace quadrille::launcher {
namespace {

constexpr int kStoppedAtOnce = 130;

std::string progress_line(const PrepareProgress& progress) {
  const double share = static_cast<double>(progress.bytes_done) /
                       static_cast<double>(std::max<std::int64_t>(progress.bytes_total, 1));
  return fmt::format("{:.0f} % of {} bytes: {} documents, {} tokens", 100 * share,
                     grouped(progress.bytes_total), grouped(progress.documents),
                     grouped(progress.tokens));
}

Json to_json(const PrepareOutcome& outcome) {
  Json files = Json::array();
  for (const PreparedFile& file : outcome.files) {
    files.push(Json::object()
                   .set("path", file.path)
                   .set("tokens", file.tokens)
                   .set("documents", file.documents));
  }
  Json tokenizer = Json::object();
  tokenizer.set("name", outcome.tokenizer.name)
      .set("hash", outcome.tokenizer.hash)
      .set("vocabulary", outcome.tokenizer.vocabulary);
  return Json::object()
      .set("files", std::move(files))
      .set("tokens", outcome.tokens)
      .set("documents", outcome.documents)
      .set("empty_documents", outcome.empty_documents)
      .set("largest_id", outcome.largest_id)
      .set("bytes_per_token", outcome.bytes_per_token)
      .set("tokenizer", std::move(tokenizer));
}

void show(const PrepareOutcome& outcome) {
  for (const PreparedFile& file : outcome.files) {
    print_line(fmt::format("{}: {} tokens in {} documents", file.path, grouped(file.tokens),
                           grouped(file.documents)));
  }
  print_line(fmt::format("tokens of {}, {} bytes each, largest id {}", outcome.tokenizer.to_text(),
                         outcome.bytes_per_token, outcome.largest_id));
  if (outcome.empty_documents > 0) {
    print_line(fmt::format("{} empty documents were left out", grouped(outcome.empty_documents)));
  }
}

Result<void> run_prepare(const DataPrepareOptions& options) {
  // A signal stops between two pieces of work, so that nothing is left beside the output.
  QD_ASSIGN_OR_RETURN(SignalPipe signals, SignalPipe::create());
  LiveLine line;
  PrepareOptions prepare = options.prepare;
  prepare.format = kInputFormatText.value(options.format).value_or(InputFormat::kAuto);
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  prepare.threads = options.threads.value_or(cores);
  prepare.progress = [&](const PrepareProgress& progress) {
    if (!options.json) line.show(progress_line(progress));
    return signals.read().empty();
  };
  const auto outcome = prepare_tokens(prepare);
  line.end();
  if (!outcome) return fail(outcome.error());
  if (options.json) {
    print_line(write_json(to_json(*outcome)));
  } else {
    show(*outcome);
  }
  return {};
}

std::string ids_text(const DocumentView& document) {
  std::string text;
  for (const std::int32_t id : document.front) text += fmt::format(" {}", id);
  return text;
}

void show(const TokenFileFacts& facts) {
  print_line(fmt::format("{}: {}, {} bytes, hash {}", facts.path,
                         kTokenFormatText.text(facts.format), grouped(facts.bytes), facts.hash));
  print_line(fmt::format(
      "{} tokens of {} bytes{}, largest id {}", grouped(facts.tokens), facts.bytes_per_token,
      facts.documents ? fmt::format(" in {} documents", grouped(*facts.documents)) : std::string(),
      facts.largest_id));
  if (facts.tokenizer) print_line("tokenizer: " + facts.tokenizer->to_text());
  for (const std::string& source : facts.sources) print_line("made from " + source);
  for (std::size_t i = 0; i < facts.first_documents.size(); ++i) {
    const DocumentView& document = facts.first_documents[i];
    const bool whole = static_cast<std::int64_t>(document.front.size()) == document.tokens;
    print_line(fmt::format("\ndocument {} ({} tokens):{}{}", i + 1, grouped(document.tokens),
                           ids_text(document), whole ? "" : " ..."));
    if (document.text) print_line(*document.text);
  }
  for (const std::string& warning : facts.warnings) complain("quadrille: warning: " + warning);
}

}  // namespace

int data_prepare_command(const DataPrepareOptions& options) {
  const Result<void> done = run_prepare(options);
  if (done) return 0;
  const int code = report_error(done.error());
  return done.error().code == Code::kAborted ? kStoppedAtOnce : code;
}

int data_inspect_command(const DataInspectOptions& options) {
  const auto facts = inspect_token_file(options.path, options.inspect);
  if (!facts) return report_error(facts.error());
  if (options.json) {
    print_line(write_json(to_json(*facts)));
  } else {
    show(*facts);
  }
  return 0;
}

}  // namespace quadrille::launcher
