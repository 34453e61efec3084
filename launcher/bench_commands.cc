// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille bench NAME

#include "launcher/bench_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>

#include "launcher/bench_plan_command.h"
#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/base/text.h"
#include "quadrille/bench/benchmarks.h"

namespace quadrille::launcher {
namespace {

using Run = std::function<Result<BenchReport>(const BenchSetting&)>;

/// Kept by the callbacks of the command that they belong to.
struct BenchOptions {
  BenchSetting setting;
  ModelSpec model = gpt2_124m();
  std::vector<std::string> tokens;
  std::vector<std::string> precisions;
  std::vector<std::int64_t> lengths;             ///< attention only
  std::vector<int> rank_counts;                  ///< comm only
  std::vector<std::int64_t> sizes;               ///< Bytes; comm only.
  std::int64_t prompt = GenerateBench().prompt;  ///< generate only, as `steps`
  std::int64_t steps = GenerateBench().steps;
  std::string tokenizer = "bytes";
  std::string text;
  int ranks = 2;
  bool profile = false;
  bool no_mpi = false;
  bool json = false;
  bool markdown = false;
};

std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

/// "4x64": sequences by tokens.
Result<std::vector<StepTokens>> tokens_of(const std::vector<std::string>& words) {
  std::vector<StepTokens> all;
  for (const std::string& word : words) {
    const std::vector<std::string> parts = split(word, 'x');
    const auto sequences = parts.size() == 2 ? whole(parts[0]) : std::nullopt;
    const auto tokens = parts.size() == 2 ? whole(parts[1]) : std::nullopt;
    if (!sequences || !tokens) {
      return fail(Code::kInvalid,
                  fmt::format("--tokens {} is not SEQUENCESxTOKENS, as in 4x64", word));
    }
    all.push_back({*sequences, *tokens});
  }
  return all;
}

Result<BenchReport> run_step(const BenchOptions& options) {
  StepBench bench;
  bench.model = options.model;
  bench.ranks = options.ranks;
  bench.profile = options.profile;
  QD_ASSIGN_OR_RETURN(std::vector<StepTokens> tokens, tokens_of(options.tokens));
  if (!tokens.empty()) bench.tokens = std::move(tokens);
  if (!options.precisions.empty()) bench.precisions.clear();
  for (const std::string& word : options.precisions) {
    bench.precisions.push_back(kPrecisionText.value(word).value_or(Precision::kFp32));
  }
  return bench_step(bench, options.setting);
}

Result<BenchReport> run_gemm(const BenchOptions& options) {
  GemmBench bench;
  bench.model = options.model;
  QD_ASSIGN_OR_RETURN(const std::vector<StepTokens> tokens, tokens_of(options.tokens));
  if (!tokens.empty()) bench.tokens = tokens.front().sequences * tokens.front().tokens;
  return bench_gemm(bench, options.setting);
}

Result<BenchReport> run_attention(const BenchOptions& options) {
  AttentionBench bench;
  if (!options.lengths.empty()) bench.tokens = options.lengths;
  return bench_attention(bench, options.setting);
}

Result<BenchReport> run_optimizer(const BenchOptions& options) {
  return bench_optimizer({.model = options.model}, options.setting);
}

Result<BenchReport> run_comm(const BenchOptions& options) {
  CommBench bench;
  if (!options.rank_counts.empty()) bench.ranks = options.rank_counts;
  if (!options.sizes.empty()) bench.bytes = options.sizes;
  return bench_comm(bench, options.setting);
}

Result<BenchReport> run_data(const BenchOptions& options) {
  return bench_data({.tokenizer = options.tokenizer, .text = options.text}, options.setting);
}

Result<BenchReport> run_checkpoint(const BenchOptions& options) {
  CheckpointBench bench;
  bench.model = options.model;
  QD_ASSIGN_OR_RETURN(const std::vector<StepTokens> tokens, tokens_of(options.tokens));
  if (!tokens.empty()) bench.tokens = tokens.front();
  return bench_checkpoint(bench, options.setting);
}

Result<BenchReport> run_generate(const BenchOptions& options) {
  GenerateBench bench;
  bench.model = options.model;
  bench.prompt = options.prompt;
  bench.steps = options.steps;
  return bench_generate(bench, options.setting);
}

int run(BenchOptions& options, const std::function<Result<BenchReport>(const BenchOptions&)>& run) {
  LiveLine line;
  options.setting.progress = [&line](std::string_view text) { line.show(text); };
  options.setting.program = options.no_mpi ? std::string() : own_path();
  const auto report = run(options);
  line.end();
  if (!report) return report_error(report.error());
  if (options.json) {
    print_line(write_json(to_json(*report), 2));
  } else {
    print(options.markdown ? bench_markdown(*report) : bench_table(*report));
  }
  return 0;
}

void add_setting(CLI::App& command, BenchOptions& options) {
  BenchSetting& setting = options.setting;
  command.add_option("--threads", setting.threads, "Of one process (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command.add_option("--repetitions", setting.repetitions, "Measured ones (default: 7)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  command
      .add_option("--folder", setting.folder, "For its files (default: a temporary one, removed)")
      ->type_name("DIR");
  auto* json = command.add_flag("--json", options.json, "Print one JSON object");
  command.add_flag("--markdown", options.markdown, "Print a table of Markdown")->excludes(json);
}

void add_model(CLI::App& command, BenchOptions& options) {
  ModelSpec& model = options.model;
  const auto extent = [&](const char* name, std::int64_t& value, const char* what) {
    command.add_option(name, value, what)
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  };
  extent("--layers", model.layers, "Of the model (default: GPT-2 124M's 12)");
  extent("--hidden", model.hidden, "Its width (default: 768)");
  extent("--heads", model.heads, "Attention heads (default: 12)");
  extent("--vocab", model.vocab, "Vocabulary (default: 50257)");
  extent("--context", model.context, "Most tokens of a sequence (default: 1024)");
}

using Options = std::shared_ptr<BenchOptions>;

CLI::App* add_one(CLI::App& group, std::function<int()>& action, const char* name, const char* what,
                  Options& options, Result<BenchReport> (*run_it)(const BenchOptions&)) {
  CLI::App* command = group.add_subcommand(name, what);
  options = std::make_shared<BenchOptions>();
  add_setting(*command, *options);
  command->callback([&action, options, run_it] {
    action = [options, run_it] {
      options->model.ffn = 4 * options->model.hidden;
      return run(*options, run_it);
    };
  });
  command->footer(std::string("Example:\n  quadrille bench ") + name + " --json");
  return command;
}

void add_tokens(CLI::App& command, BenchOptions& options, const char* what) {
  command.add_option("--tokens", options.tokens, what)
      ->type_name("SEQUENCESxTOKENS")
      ->take_all()
      ->allow_extra_args(false);
}

void add_memory_benches(CLI::App& group, std::function<int()>& action) {
  Options options;
  CLI::App* attention =
      add_one(group, action, "attention", "Attention beside its products in oneDNN, and its memory",
              options, run_attention);
  attention->add_option("--length", options->lengths, "Tokens (default: 256 to 8192)")
      ->type_name("T")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 17))
      ->allow_extra_args(false);
  CLI::App* optimizer = add_one(group, action, "optimizer", "AdamW beside the memory's own rate",
                                options, run_optimizer);
  add_model(*optimizer, *options);
  CLI::App* comm =
      add_one(group, action, "comm", "Collectives of threads and MPI processes beside Open MPI's",
              options, run_comm);
  comm->add_option("--ranks", options->rank_counts, "Default: 2 and 4")
      ->type_name("N")
      ->check(CLI::Range(1, 64))
      ->allow_extra_args(false);
  comm->add_option("--bytes", options->sizes, "Of the tensor, e.g. 64KiB (default: 16KiB to 64MiB)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{4}, std::int64_t{1} << 30))
      ->allow_extra_args(false);
  comm->add_flag("--no-mpi", options->no_mpi, "Ranks as threads only");
  CLI::App* data = add_one(group, action, "data", "Batches and the tokenizer", options, run_data);
  data->add_option("--tokenizer", options->tokenizer, "As data.tokenizer in a job (default: bytes)")
      ->type_name("NAME");
  data->add_option("--text", options->text, "To encode (default: a made-up one)")
      ->type_name("FILE");
  CLI::App* checkpoint =
      add_one(group, action, "checkpoint", "Saving and loading beside the disk's own rates",
              options, run_checkpoint);
  add_model(*checkpoint, *options);
  add_tokens(*checkpoint, *options, "Of the step beside an asynchronous save (default: 4x64)");
  CLI::App* generate =
      add_one(group, action, "generate", "Prompts and decoding beside products and bandwidth",
              options, run_generate);
  add_model(*generate, *options);
  const auto count = [&](const char* name, std::int64_t& value, const char* what) {
    generate->add_option(name, value, what)
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  };
  count("--prompt", options->prompt, "Its tokens (default: 256)");
  count("--tokens", options->steps, "Decoded in each round (default: 16)");
}

}  // namespace

void add_bench(CLI::App& app, std::function<int()>& action) {
  CLI::App* group =
      app.add_subcommand("bench", "Measure this machine, beside its limits and peers");
  group->footer("Example:\n  quadrille bench step --tokens 4x64 --repetitions 5");
  group->require_subcommand(1);
  Options options;
  CLI::App* step =
      add_one(*group, action, "step", "A training step beside its products in oneDNN; bf16; ranks",
              options, run_step);
  add_model(*step, *options);
  add_tokens(*step, *options, "Of a step (default: 4x64 and 1x256); may be given again");
  step->add_option("--precision", options->precisions, "fp32, bf16 (default: both)")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->take_all()
      ->allow_extra_args(false);
  step->add_option("--ranks", options->ranks, "Data-parallel ranks (default: 2; 1: none)")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  step->add_flag("--no-mpi", options->no_mpi, "Ranks as threads only");
  step->add_flag("--profile", options->profile, "Show where each step's time goes");
  CLI::App* gemm = add_one(*group, action, "gemm",
                           "Matrix products at a model's shapes beside OpenBLAS and the peak",
                           options, run_gemm);
  add_model(*gemm, *options);
  add_tokens(*gemm, *options, "Rows of the products (default: 4x64)");
  add_memory_benches(*group, action);
  add_bench_plan(*group, action);
  add_bench_results(*group, action);
}

void add_bench_rank(CLI::App& app, std::function<int()>& action) {
  struct RankOptions {
    std::string sizes;
    int repetitions = 1;
  };
  const auto options = std::make_shared<RankOptions>();
  CLI::App* command = app.add_subcommand("bench-rank", "")->group("");
  command->add_option("--sizes", options->sizes)->required();
  command->add_option("--repetitions", options->repetitions);
  command->callback([&action, options] {
    action = [options] {
      const Result<void> done = run_comm_rank(options->sizes, options->repetitions);
      return done ? 0 : report_error(done.error());
    };
  });
}

}  // namespace quadrille::launcher
