// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// The command line `quadrille`: parses options and hands them to one function per command.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "launcher/bench_commands.h"
#include "launcher/commands.h"
#include "launcher/manual.h"
#include "launcher/terminal.h"

namespace quadrille::launcher {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 the run failed, 2 the request was wrong, 3 a rank was lost,\n"
    "75 stopped by a signal with the state saved, 130 stopped at once by the second signal.";

/// Set by the command that was chosen.
using Action = std::function<int()>;

CLI::App* add(CLI::App& app, const char* name, const char* what, const char* example) {
  CLI::App* command = app.add_subcommand(name, what);
  command->footer(std::string("Example:\n  ") + example);
  return command;
}

void add_job_options(CLI::App& command, JobOptions& options) {
  command
      .add_option("JOB", options.job,
                  "The job: a JSON file, or a run (its directory, or name in runs/)")
      ->required();
  command.add_option("--set", options.sets, "Override a value of the job, e.g. training.steps=20")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--ranks", options.ranks, "All ranks together (default: the job's layout)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
}

void add_plan(CLI::App& app, PlanOptions& options, Action& action) {
  CLI::App* command =
      add(app, "plan", "Show the layout, memory and program a job would run with, and why",
          "quadrille plan configs/demo.json --ranks 2 --explain");
  add_job_options(*command, options.job);
  command->add_flag("--explain", options.explain, "Every decision with its reason");
  command->add_option("--rank", options.rank, "Print this rank's program")
      ->type_name("R")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options.json, "Print the plan as JSON");
  command->add_option("-o,--output", options.output, "Write the plan to a file")->type_name("FILE");
  command->callback([&] { action = [&options] { return plan_command(options); }; });
}

void add_verify(CLI::App& app, VerifyCommandOptions& options, Action& action) {
  CLI::App* command =
      add(app, "verify", "Compare what two layouts compute, on the job's model made small",
          "quadrille verify configs/demo.json --layout data=1 --layout data=2,tensor=2,sequence=1");
  command
      ->add_option("JOB", options.job.job,
                   "The job: a JSON file, or a run (its directory, or name in runs/)")
      ->required();
  command
      ->add_option("--set", options.job.sets, "Override a value of the job, e.g. model.dropout=0.1")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--layout", options.layouts,
                   "One of the two layouts: data, tensor, sequence, sharding, micro_batch")
      ->type_name("NAME=N,...")
      ->required()
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--steps", options.steps, "Optimizer steps under each")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
  command->callback([&] { action = [&options] { return verify_command(options); }; });
}

void add_launch(CLI::App& app, LaunchOptions& options, Action& action) {
  CLI::App* command = add(app, "launch", "Train a job over its ranks",
                          "quadrille launch configs/demo.json --ranks 2 --set training.steps=100");
  add_job_options(*command, options.job);
  command
      ->add_option("--backend", options.backend,
                   "How ranks run: threads or mpi (mpirun; srun in a Slurm allocation)")
      ->check(CLI::IsMember({"threads", "mpi"}));
  command->add_option("--hostfile", options.host_file, "mpirun's host file; implies mpi")
      ->type_name("FILE");
  command
      ->add_option("--resume", options.resume,
                   "From the newest valid checkpoint: auto (if there is one), required, never")
      ->check(CLI::IsMember({"auto", "required", "never"}));
  command
      ->add_option("--run-dir", options.run_directory,
                   "Where results go (default: runs/<job name>-<UTC time>)")
      ->type_name("DIR");
  command->add_flag("--print", options.print, "Show all that would run, and run nothing");
  command->add_flag("--profile", options.profile,
                    "Where the steps' time goes: a table, profile.json, trace.json for Perfetto");
  command->footer(std::string("After `--` may stand a custom trainer and its arguments, which the "
                              "ranks run (default\nbackend mpi; --backend threads: one process "
                              "hosts them all).\n"
                              "Examples:\n  quadrille launch configs/demo.json --ranks 2\n"
                              "  quadrille launch job.json -- ./custom_trainer 256\n") +
                  kExitCodes);
  command->callback([&] { action = [&options] { return launch_command_line(options); }; });
}

void add_generate(CLI::App& app, GenerateOptions& options, Action& action) {
  CLI::App* command =
      add(app, "generate", "Let a trained model write",
          "quadrille generate runs/latest --prompt 'In the beginning' --tokens 200");
  SamplingOptions& sampling = options.sampling;
  command->option_defaults()->always_capture_default();
  command->add_option("RUN_OR_CHECKPOINT", options.path, "A run directory or a checkpoint")
      ->required();
  command->add_flag("--best", options.best, "The checkpoint of the best validation loss");
  auto* prompt = command
                     ->add_option("--prompt", options.prompts,
                                  "The text to continue; several times for several texts")
                     ->type_name("TEXT")
                     ->allow_extra_args(false);
  command
      ->add_option("--prompt-file", options.prompt_file,
                   "The same from a file; without either, "
                   "standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  command->add_option("--tokens", sampling.tokens, "New tokens per sample")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  command->add_option("--samples", sampling.samples, "How many continuations")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->add_option("--temperature", sampling.temperature, "0 always takes the likeliest")
      ->type_name("X")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", sampling.top_k, "Only the k likeliest tokens; 0 is off")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--top-p", sampling.top_p, "Only the likeliest tokens of this total probability")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", sampling.seed, "The same seed writes the same text")
      ->type_name("N");
  command
      ->add_option_function<std::string>(
          "--precision",
          [&options](const std::string& word) {
            options.precision = kPrecisionText.value(word).value_or(Precision::kFp32);
          },
          "Of the weights: bf16 halves what each token reads")
      ->type_name("fp32|bf16")
      ->default_str("fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  command->add_flag("--json", options.json, "The texts and the rates as one object, at the end");
  command->callback([&] { action = [&options] { return generate_command(options); }; });
}

void add_evaluate(CLI::App& app, EvaluateOptions& options, Action& action) {
  CLI::App* command = add(app, "evaluate", "The loss of a trained model on a text",
                          "quadrille evaluate runs/latest --data book.txt --json");
  command->add_option("RUN_OR_CHECKPOINT", options.path, "A run directory or a checkpoint")
      ->required();
  command->add_flag("--best", options.best, "The checkpoint of the best validation loss");
  command->add_option("--data", options.data, "Text files (default: the job's validation data)")
      ->type_name("PATH");
  command->add_flag("--json", options.json, "Print one JSON object");
  command->callback([&] { action = [&options] { return evaluate_command(options); }; });
}

CLI::App* add_checkpoint(CLI::App& app, CheckpointOptions& options, Action& action) {
  CLI::App* group = add(app, "checkpoint", "List, verify, compare and convert checkpoints",
                        "quadrille checkpoint verify runs/latest");
  group->require_subcommand(1);
  CLI::App* list = add(*group, "ls", "The checkpoints of a run, oldest first",
                       "quadrille checkpoint ls runs/latest --json");
  CLI::App* verify =
      add(*group, "verify", "Read every byte against its checksum; 1 if one is damaged",
          "quadrille checkpoint verify runs/latest");
  CLI::App* diff =
      add(*group, "diff", "Compare the logical state of two checkpoints; 1 if they differ",
          "quadrille checkpoint diff runs/a runs/b");
  for (CLI::App* command : {list, verify, diff}) {
    command->add_option("PATH", options.path, "A run directory, checkpoint directory or checkpoint")
        ->required();
    command->add_flag("--json", options.json, "Print JSON");
  }
  diff->add_option("OTHER", options.other, "The one to compare with")->required();
  list->callback([&] { action = [&options] { return checkpoint_list_command(options); }; });
  verify->callback([&] { action = [&options] { return checkpoint_verify_command(options); }; });
  diff->callback([&] { action = [&options] { return checkpoint_diff_command(options); }; });
  return group;
}

void add_conversions(CLI::App& group, ConvertOptions& options, Action& action) {
  CLI::App* to = add(group, "export", "Write a checkpoint as a folder that transformers loads",
                     "quadrille checkpoint export runs/latest my-model");
  to->add_option("RUN_OR_CHECKPOINT", options.source, "A run directory or a checkpoint")
      ->required();
  to->add_option("FOLDER", options.target, "The folder, new or empty")->required();
  to->add_option("--shard-size", options.shard_size,
                 "Most weights in one file, e.g. 500MB (default: 5GB)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  CLI::App* from =
      add(group, "import", "Make a Hugging Face folder a checkpoint, without optimizer state",
          "quadrille checkpoint import my-model imported");
  from->add_option("HF_FOLDER", options.source, "config.json and model.safetensors or its shards")
      ->required();
  from->add_option("CHECKPOINT_DIR", options.target, "Gets the checkpoint as step-00000000")
      ->required();
  for (CLI::App* command : {to, from}) command->add_flag("--json", options.json, "Print JSON");
  to->callback([&] { action = [&options] { return checkpoint_export_command(options); }; });
  from->callback([&] { action = [&options] { return checkpoint_import_command(options); }; });
}

void add_data_prepare(CLI::App& group, DataPrepareOptions& options, Action& action) {
  CLI::App* command =
      add(group, "prepare", "Turn text and lines of JSON into token files, each with a sidecar",
          "quadrille data prepare stories.jsonl -o stories.bin --tokenizer gpt2 --field story\n"
          "  quadrille data prepare books/*.txt -o books.bin --shard-tokens 100000000");
  PrepareOptions& prepare = options.prepare;
  command->add_option("INPUT", prepare.inputs, "Text files, or .jsonl files of one document a line")
      ->required();
  command->add_option("-o,--output", prepare.output, "FILE.bin; its sidecar is FILE.bin.json")
      ->type_name("FILE.bin")
      ->required();
  command
      ->add_option("--tokenizer", prepare.tokenizer,
                   "bytes, or a path, as data.tokenizer in a job (default: bytes)")
      ->type_name("NAME");
  command->add_option("--field", prepare.field, "The text of a JSON line (default: text)")
      ->type_name("NAME");
  command
      ->add_option("--format", options.format,
                   "auto (.jsonl and .ndjson are lines of JSON), text or jsonl")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}));
  command
      ->add_option("--shard-tokens", prepare.shard_tokens,
                   "Begin FILE-00001.bin and so on with the first document after N tokens")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  command->add_option("--threads", options.threads, "Tokenizing threads (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options.json, "Print one JSON object");
  command->callback([&] { action = [&options] { return data_prepare_command(options); }; });
}

void add_data(CLI::App& app, DataPrepareOptions& prepare, DataInspectOptions& inspect,
              Action& action) {
  CLI::App* group = add(app, "data", "Prepare token files, and look into them",
                        "quadrille data inspect stories.bin");
  group->require_subcommand(1);
  add_data_prepare(*group, prepare, action);
  CLI::App* command =
      add(*group, "inspect", "Format, counts, largest id, hash and first documents of a file",
          "quadrille data inspect stories.bin --documents 1 --json");
  command->add_option("FILE", inspect.path, "Text, a .bin of llm.c, or a .bin or .idx of Megatron")
      ->required();
  command
      ->add_option("--tokenizer", inspect.inspect.tokenizer,
                   "Decode with it (default: the one that the sidecar names)")
      ->type_name("NAME");
  command
      ->add_option("--documents", inspect.inspect.documents,
                   "How many of the first to show (default: 3)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  command->add_flag("--json", inspect.json, "Print one JSON object");
  command->callback([&] { action = [&inspect] { return data_inspect_command(inspect); }; });
}

void add_doctor(CLI::App& app, DoctorOptions& options, Action& action) {
  CLI::App* command = add(app, "doctor", "Check this machine and installation", "quadrille doctor");
  command->add_flag("--json", options.json, "Print one JSON object");
  command->callback([&] { action = [&options] { return doctor_command(options); }; });
}

/// Where `--` stands in `launch JOB -- PROGRAM ARGS...`, else `argc`: what follows is not ours.
int own_arguments(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "launch") return argc;
  const auto dashes = std::find_if(argv, argv + argc,
                                   [](const char* word) { return std::string_view(word) == "--"; });
  return static_cast<int>(dashes - argv);
}

CommandText describe(const CLI::App& command) {
  CommandText text{command.get_name(), command.get_description(), command.get_footer(), {}, {}};
  for (const CLI::Option* option : command.get_options()) {
    const std::string type = option->get_items_expected_max() > 0 ? option->get_type_name() : "";
    text.options.push_back({option->get_name(option->get_positional(), true),
                            type.substr(0, type.find(':')),  // what follows are its checks
                            option->get_description(), option->get_default_str()});
  }
  for (const CLI::App* child : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (!child->get_group().empty()) text.commands.push_back(describe(*child));
  }
  return text;
}

int run(int argc, char** argv) {
  CLI::App app{"Quadrille trains transformers in data parallelism, on one machine or many."};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.footer(std::string("Example:\n  quadrille launch configs/demo.json --ranks 2\n") +
             kExitCodes);
  Action action;
  PlanOptions plan;
  VerifyCommandOptions verify;
  LaunchOptions launch;
  GenerateOptions generate;
  EvaluateOptions evaluate;
  CheckpointOptions checkpoint;
  DataPrepareOptions data_prepare;
  DataInspectOptions data_inspect;
  ConvertOptions convert;
  DoctorOptions doctor;
  add_plan(app, plan, action);
  add_verify(app, verify, action);
  add_launch(app, launch, action);
  add_evaluate(app, evaluate, action);
  add_generate(app, generate, action);
  add_conversions(*add_checkpoint(app, checkpoint, action), convert, action);
  add_data(app, data_prepare, data_inspect, action);
  add_doctor(app, doctor, action);
  add_bench(app, action);
  CLI::App* completion =
      add(app, "completion", "A script that completes commands and options in bash",
          "source <(quadrille completion)");
  completion->callback([&] {
    action = [&app] {
      print(bash_completion(describe(app)));
      return 0;
    };
  });
  CLI::App* manual = add(app, "manual", "This program's manual page",
                         "quadrille manual > quadrille.1 && man ./quadrille.1");
  manual->callback([&] {
    action = [&app] {
      print(manual_page(describe(app)));
      return 0;
    };
  });
  CLI::App* rank = app.add_subcommand("rank", "")->group("");
  bool is_unsaved = false;
  rank->add_flag("--unsaved", is_unsaved);
  rank->callback([&] { action = [&is_unsaved] { return rank_command(!is_unsaved); }; });
  add_bench_rank(app, action);
  const int own = own_arguments(argc, argv);
  if (own < argc) {
    launch.has_program = true;
    launch.program.assign(argv + own + 1, argv + argc);
  }
  try {
    app.parse(own, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const int code = action();
  // A launch goes on without its reader; every other command's output is its result.
  if (code != 0 || app.got_subcommand("launch") || app.got_subcommand("rank") ||
      app.got_subcommand("bench-rank"))
    return code;
  if (is_printed()) return 0;
  complain("quadrille: standard output could not be written");
  return 1;
}

}  // namespace
}  // namespace quadrille::launcher

int main(int argc, char** argv) { return quadrille::launcher::run(argc, argv); }
