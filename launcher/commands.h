// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// One function per command. Each gets its options parsed, prints what a person or a script reads,
// and returns the exit code of the contract: 0 done, 1 failed, 2 the request was wrong, 3 a rank
// was lost, 75 stopped with the state saved, 130 stopped at once.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/data/inspection.h"
#include "quadrille/data/prepare.h"
#include "quadrille/infer/generator.h"

namespace quadrille::launcher {

/// Which job, and what the command line changes in it.
struct JobOptions {
  std::string job;                ///< A job's file, a run directory, or the name of one in runs/.
  std::vector<std::string> sets;  ///< --set PATH=VALUE, as written.
  std::optional<int> ranks;       ///< --ranks
};

struct PlanOptions {
  JobOptions job;
  bool explain = false;
  std::optional<int> rank;
  bool json = false;
  std::string output;
};
int plan_command(const PlanOptions& options);

struct VerifyCommandOptions {
  JobOptions job;
  std::vector<std::string> layouts;  ///< Two.
  std::int64_t steps = 3;
};
int verify_command(const VerifyCommandOptions& options);

struct LaunchOptions {
  JobOptions job;
  std::string backend;  ///< Empty: threads; mpi with a host file, in Slurm or with a program.
  std::string host_file;
  bool has_program = false;          ///< `--` was given.
  std::vector<std::string> program;  ///< After it: what the ranks run instead of our trainer.
  std::string resume;  ///< Empty: auto with an existing run directory, never with a new one.
  std::string run_directory;
  bool print = false;
  bool profile = false;
};
int launch_command_line(const LaunchOptions& options);

/// A rank process, started by launch and by nobody else; benchmarks start ones that save nothing.
int rank_command(bool saves);

struct GenerateOptions {
  std::string path;
  bool best = false;  ///< The checkpoint of the best validation loss instead of the newest.
  std::vector<std::string> prompts;
  std::string prompt_file;
  SamplingOptions sampling;
  Precision precision = Precision::kFp32;
  bool json = false;
};
int generate_command(const GenerateOptions& options);

struct EvaluateOptions {
  std::string path;
  bool best = false;
  std::vector<std::string> data;
  bool json = false;
};
int evaluate_command(const EvaluateOptions& options);

struct CheckpointOptions {
  std::string path;
  std::string other;  ///< diff only
  bool json = false;
};
int checkpoint_list_command(const CheckpointOptions& options);
int checkpoint_verify_command(const CheckpointOptions& options);
int checkpoint_diff_command(const CheckpointOptions& options);

struct DataPrepareOptions {
  PrepareOptions prepare;
  std::string format = "auto";
  std::optional<int> threads;  ///< All cores where absent.
  bool json = false;
};
int data_prepare_command(const DataPrepareOptions& options);

struct DataInspectOptions {
  std::string path;
  InspectOptions inspect;
  bool json = false;
};
int data_inspect_command(const DataInspectOptions& options);

struct ConvertOptions {
  std::string source;
  std::string target;
  std::int64_t shard_size = 5'000'000'000;  ///< Bytes; export only.
  bool json = false;
};
int checkpoint_export_command(const ConvertOptions& options);
int checkpoint_import_command(const ConvertOptions& options);

struct DoctorOptions {
  bool json = false;
};
int doctor_command(const DoctorOptions& options);

/// The text of --version.
[[nodiscard]] std::string version_text();

/// Prints the error on standard error and returns its exit code.
int report_error(const Error& error);

}  // namespace quadrille::launcher
