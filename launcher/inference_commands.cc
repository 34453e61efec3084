// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille generate | evaluate

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <iterator>
#include <utility>

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

Result<Inference> load_model(const std::string& path, bool best,
                             Precision precision = Precision::kFp32) {
  QD_ASSIGN_OR_RETURN(const HostTopology topology, read_host_topology());
  QD_RETURN_IF_ERROR(bind_this_thread(share_of_host(topology, Rank{0}, 1)));
  std::vector<CheckpointListing> skipped;
  QD_ASSIGN_OR_RETURN(const Checkpoint checkpoint, best ? resolve_best_checkpoint(path, &skipped)
                                                        : resolve_checkpoint(path, &skipped));
  for (const CheckpointListing& damaged : skipped) {
    complain("quadrille: warning: passed over a damaged checkpoint: " + damaged.damage->message);
  }
  Inference inference;
  inference.device = make_host_device();
  QD_ASSIGN_OR_RETURN(inference.model, LoadedModel::open(checkpoint, *inference.device, precision));
  return inference;
}

Result<std::vector<std::string>> read_prompts(const GenerateOptions& options) {
  if (!options.prompts.empty()) return options.prompts;
  if (!options.prompt_file.empty()) {
    QD_ASSIGN_OR_RETURN(std::string text, read_text_file(options.prompt_file));
    return std::vector<std::string>{std::move(text)};
  }
  return std::vector<std::string>{std::string(std::istreambuf_iterator<char>(std::cin), {})};
}

double rate(std::int64_t tokens, Seconds seconds) {
  return seconds.count() > 0 ? static_cast<double>(tokens) / seconds.count() : 0;
}

std::string rates_line(const GenerationReport& report) {
  return fmt::format("prompt: {} tokens, {:.1f} tokens/s; written: {} tokens, {:.1f} tokens/s",
                     report.prompt_tokens, rate(report.prompt_tokens, report.prompt_seconds),
                     report.new_tokens, rate(report.decoded_tokens, report.decode_seconds));
}

/// The texts as they come, then the rates on standard error.
Result<void> write_texts(LoadedModel& model, const std::vector<std::string>& prompts,
                         const SamplingOptions& sampling) {
  const bool many = static_cast<std::int64_t>(prompts.size()) * sampling.samples > 1;
  std::int64_t shown = -1;
  const auto emit = [&](std::int64_t sample, std::string_view text) {
    if (sample != shown) {
      if (many) print(fmt::format("{}--- sample {} ---\n", shown < 0 ? "" : "\n", sample + 1));
      print(prompts[static_cast<std::size_t>(sample / sampling.samples)]);
      shown = sample;
    }
    print(text);
    return !std::cout.fail();
  };
  QD_ASSIGN_OR_RETURN(const GenerationReport report, model.generate(prompts, sampling, emit));
  print("\n");
  complain(rates_line(report));
  return {};
}

Result<void> write_as_json(LoadedModel& model, const std::vector<std::string>& prompts,
                           const SamplingOptions& sampling) {
  std::vector<std::string> texts(prompts.size() * static_cast<std::size_t>(sampling.samples));
  const auto emit = [&](std::int64_t sample, std::string_view text) {
    texts[static_cast<std::size_t>(sample)] += text;
    return true;
  };
  QD_ASSIGN_OR_RETURN(const GenerationReport report, model.generate(prompts, sampling, emit));
  Json samples = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json sample = Json::object();
    sample.set("prompt", prompts[i / static_cast<std::size_t>(sampling.samples)])
        .set("text", texts[i]);
    samples.push(std::move(sample));
  }
  Json row = Json::object();
  row.set("samples", std::move(samples))
      .set("prompt_tokens", report.prompt_tokens)
      .set("prompt_tokens_per_second", rate(report.prompt_tokens, report.prompt_seconds))
      .set("new_tokens", report.new_tokens)
      .set("new_tokens_per_second", rate(report.decoded_tokens, report.decode_seconds));
  print_line(write_json(row));
  return {};
}

Result<void> run_generate(const GenerateOptions& options) {
  QD_ASSIGN_OR_RETURN(const Inference inference,
                      load_model(options.path, options.best, options.precision));
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> prompts, read_prompts(options));
  return options.json ? write_as_json(*inference.model, prompts, options.sampling)
                      : write_texts(*inference.model, prompts, options.sampling);
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
