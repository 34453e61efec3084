// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille checkpoint export | import

#include <fmt/format.h>

#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/base/text.h"
#include "quadrille/checkpoint/hugging_face.h"

namespace quadrille::launcher {
namespace {

Result<void> run_export(const ConvertOptions& options) {
  QD_ASSIGN_OR_RETURN(const Checkpoint checkpoint, resolve_checkpoint(options.source));
  QD_ASSIGN_OR_RETURN(const ExportOutcome outcome,
                      export_hugging_face(checkpoint, {options.target, Bytes(options.shard_size)}));
  if (options.json) {
    Json row = Json::object();
    Json weights = Json::array();
    for (const std::string& file : outcome.files) weights.push(file);
    Json tokenizer = Json::array();
    for (const std::string& file : outcome.tokenizer_files) tokenizer.push(file);
    row.set("checkpoint", checkpoint.path()).set("folder", options.target);
    row.set("bytes", outcome.bytes.count()).set("weights", weights).set("tokenizer", tokenizer);
    print_line(write_json(row));
    return {};
  }
  print_line(fmt::format("wrote {}: {} of weights in {} file{}, from {}", options.target,
                         to_text(outcome.bytes), outcome.files.size(),
                         outcome.files.size() == 1 ? "" : "s", checkpoint.path()));
  if (outcome.tokenizer_files.empty()) {
    print_line("no tokenizer files: this model reads bytes, for which transformers has none");
  } else {
    print_line("tokenizer: " + join(outcome.tokenizer_files, ", "));
  }
  return {};
}

Result<void> run_import(const ConvertOptions& options) {
  QD_ASSIGN_OR_RETURN(const std::string path, import_hugging_face(options.source, options.target));
  QD_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(path));
  const TrainingState& state = checkpoint.manifest().state;
  if (options.json) {
    Json row = Json::object();
    row.set("checkpoint", path).set("model", state.model).set("tokenizer", state.tokenizer);
    print_line(write_json(row));
    return {};
  }
  print_line(fmt::format("wrote {}: {} tensors, no optimizer state, tokenizer {}", path,
                         checkpoint.manifest().tensors.size(), state.tokenizer));
  return {};
}

}  // namespace

int checkpoint_export_command(const ConvertOptions& options) {
  const Result<void> done = run_export(options);
  return done ? 0 : report_error(done.error());
}

int checkpoint_import_command(const ConvertOptions& options) {
  const Result<void> done = run_import(options);
  return done ? 0 : report_error(done.error());
}

}  // namespace quadrille::launcher
