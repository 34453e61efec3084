// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille generate | evaluate

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <iterator>

#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/base/file.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/infer/generator.h"

namespace quadrille::launcher {
namespace {

/// A model, and the device that must outlive it.
struct Inference {
  std::unique_ptr<Device> device;
  std::unique_ptr<LoadedModel> model;
};

Result<Inference> load_model(const std::string& path, bool best) {
  QD_ASSIGN_OR_RETURN(const HostTopology topology, read_host_topology());
  QD_RETURN_IF_ERROR(bind_this_thread(share_of_host(topology, Rank{0}, 1)));
  QD_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                      best ? resolve_best_checkpoint(path) : resolve_checkpoint(path));
  Inference inference;
  inference.device = make_host_device();
  QD_ASSIGN_OR_RETURN(inference.model, LoadedModel::open(checkpoint, *inference.device));
  return inference;
}

Result<std::string> read_prompt(const GenerateOptions& options) {
  if (options.prompt) return *options.prompt;
  if (!options.prompt_file.empty()) return read_text_file(options.prompt_file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

Result<void> run_generate(const GenerateOptions& options) {
  QD_ASSIGN_OR_RETURN(const Inference inference, load_model(options.path, options.best));
  QD_ASSIGN_OR_RETURN(const std::string prompt, read_prompt(options));
  std::int64_t shown = -1;
  const auto emit = [&](std::int64_t sample, std::string_view text) {
    if (sample != shown) {
      if (options.sampling.samples > 1) {
        print(fmt::format("{}--- sample {} ---\n", shown < 0 ? "" : "\n", sample + 1));
      }
      print(prompt);
      shown = sample;
    }
    print(text);
    return !std::cout.fail();
  };
  QD_RETURN_IF_ERROR(inference.model->generate(prompt, options.sampling, emit));
  print("\n");
  return {};
}

Result<void> run_evaluate(const EvaluateOptions& options) {
  QD_ASSIGN_OR_RETURN(const Inference inference, load_model(options.path, options.best));
  QD_ASSIGN_OR_RETURN(const LoadedModel::Evaluation found, inference.model->evaluate(options.data));
  if (options.json) {
    Json row = Json::object();
    row.set("step", inference.model->state().step)
        .set("loss", found.loss)
        .set("perplexity", std::exp(found.loss))
        .set("tokens", found.tokens)
        .set("unigram_entropy", found.unigram_entropy);
    print_line(write_json(row));
    return {};
  }
  print_line(
      fmt::format("step {}: loss {:.4f} (perplexity {:.3f}) over {} tokens; {:.2f} of the text's "
                  "unigram entropy {:.4f}",
                  inference.model->state().step, found.loss, std::exp(found.loss), found.tokens,
                  found.loss / found.unigram_entropy, found.unigram_entropy));
  return {};
}

}  // namespace

int generate_command(const GenerateOptions& options) {
  const Result<void> done = run_generate(options);
  return done ? 0 : report_error(done.error());
}

int evaluate_command(const EvaluateOptions& options) {
  const Result<void> done = run_evaluate(options);
  return done ? 0 : report_error(done.error());
}

}  // namespace quadrille::launcher
